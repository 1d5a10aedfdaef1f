//! `goldseam explain`.

use clap::Args;
use goldseam::recovery::{CATALOGUE, Code};
use goldseam::unstable::core::argument::nearest;
use goldseam_api::codes::{self, title};
use serde_json::json;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::out;
use crate::table::TextTable;

/// Explain a code or a rule: what happened, why, and what to do
///
/// Without a code, lists all of them. A rule has a name besides its code; both work everywhere.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam explain worker-lost\n  goldseam explain A2\n  goldseam explain GS0104\n  goldseam explain 104"
)]
pub(crate) struct ExplainArgs {
    /// The name or code of a rule, as in worker-lost or O2, or the code of an error, as in error[GS0104]
    code: Option<String>,
}

pub(crate) fn run(app: &App, args: &ExplainArgs) -> Result<Exit, CliError> {
    let Some(text) = &args.code else {
        list(app);
        return Ok(Exit::Ok);
    };
    let wanted = normal(text);
    let Some((code, page)) = codes::all().find(|(code, _)| *code == wanted) else {
        return Err(CliError::not_found(format!("unknown code {text}"), suggestion(text)));
    };
    match app.wants_json() {
        true => {
            let name = Code::from_code(code).map(Code::name);
            out::json(&json!({ "code": code, "name": name, "title": title(code, page), "page": page }));
        }
        false if app.quiet => out::line(code),
        false => page.lines().for_each(|line| out::line(shown(app, line))),
    }
    Ok(Exit::Ok)
}

fn shown(app: &App, line: &str) -> String {
    if !app.terminal || !line.starts_with('#') {
        return line.to_owned();
    }
    app.colors.apply(Hue::Bold, line.trim_start_matches(['#', ' ']))
}

fn list(app: &App) {
    if app.wants_json() {
        let item = |(code, page): (&str, &str)| {
            let name = Code::from_code(code).map(Code::name);
            json!({ "code": code, "name": name, "title": title(code, page) })
        };
        return out::json(&json!({ "items": codes::all().map(item).collect::<Vec<_>>() }));
    }
    let mut table = TextTable::new(&["CODE", "NAME", "WHAT"]);
    for (code, page) in codes::all() {
        let name = Code::from_code(code).map_or("-", Code::name);
        table.row(vec![code.to_owned(), name.to_owned(), title(code, page).to_owned()]);
    }
    app.table(&table);
}

/// Normalizes a code: `gs104`, `104`, `[GS0104]` and `error[GS0104]` are GS0104, `worker-lost` and `worker-lost (O2)`
/// are O2.
fn normal(text: &str) -> String {
    if let Ok(rule) = text.split(" (").next().unwrap_or(text).trim().parse::<Code>() {
        return rule.to_string();
    }
    let inside = text.split_once('[').map_or(text, |(_, rest)| rest.split(']').next().unwrap_or(rest));
    let word: String = inside.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_uppercase();
    let digits = word.trim_start_matches("GS");
    match digits.parse::<u32>() {
        Ok(number) if digits.len() <= 4 => format!("GS{number:04}"),
        _ => word,
    }
}

/// Suggests similar codes, or similar names of rules.
fn suggestion(text: &str) -> String {
    let mut near = nearest(&normal(text), codes::all().map(|(code, _)| code));
    if near.is_empty() {
        near = nearest(&text.to_lowercase(), CATALOGUE.iter().map(|rule| rule.name));
    }
    match near.as_slice() {
        [] => "goldseam explain lists all codes".to_owned(),
        near => format!("did you mean {}? goldseam explain lists all codes", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_different_spellings_of_a_code() {
        for text in ["GS0104", "gs104", "104", "[GS0104]", "error[GS0104]", "error[GS0104]: run x"] {
            assert_eq!(normal(text), "GS0104", "{text}");
        }
        assert_eq!(normal("a2"), "A2");
        for text in ["worker-lost", "Worker-Lost", "worker-lost (O2)", "o2"] {
            assert_eq!(normal(text), "O2", "{text}");
        }
    }

    #[test]
    fn suggests_similar_codes() {
        assert!(suggestion(concat!("GS", "0199")).contains("GS01"));
        assert!(suggestion("worker-lst").contains("did you mean worker-lost?"));
        assert_eq!(suggestion("NONSENSE"), "goldseam explain lists all codes");
    }
}
