//! `goldseam explain`.

use clap::Args;
use goldseam_api::codes::{self, title};
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;
use crate::paint::Hue;
use crate::table::Table;

/// Explain a code: what happened, why, and what to do
///
/// Without a code, lists all of them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  goldseam explain A2\n  goldseam explain GS0104\n  goldseam explain 104")]
pub(crate) struct ExplainArgs {
    /// The code: of a rule, as in A2, or of an error, as in error[GS0104]
    code: Option<String>,
}

/// Carries it out.
pub(crate) fn run(app: &App, args: &ExplainArgs) -> Result<Exit, Fail> {
    let Some(text) = &args.code else {
        list(app);
        return Ok(Exit::Ok);
    };
    let wanted = normal(text);
    let Some((code, page)) = codes::all().find(|(code, _)| *code == wanted) else {
        return Err(Fail::not_found(format!("there is no code {text}"), suggestion(&wanted)));
    };
    match app.wants_json() {
        true => out::json(&json!({ "code": code, "title": title(code, page), "page": page })),
        false if app.quiet => out::line(code),
        false => page.lines().for_each(|line| out::line(shown(app, line))),
    }
    Ok(Exit::Ok)
}

fn shown(app: &App, line: &str) -> String {
    if !app.terminal || !line.starts_with('#') {
        return line.to_owned();
    }
    app.paint.on(Hue::Bold, line.trim_start_matches(['#', ' ']))
}

fn list(app: &App) {
    if app.wants_json() {
        let item = |(code, page): (&str, &str)| json!({ "code": code, "title": title(code, page) });
        return out::json(&json!({ "items": codes::all().map(item).collect::<Vec<_>>() }));
    }
    let mut table = Table::new(&["CODE", "WHAT"]);
    for (code, page) in codes::all() {
        table.row(vec![code.to_owned(), title(code, page).to_owned()]);
    }
    app.table(&table);
}

/// `gs104`, `104` and `[GS0104]` are GS0104.
fn normal(text: &str) -> String {
    let word: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_uppercase();
    let digits = word.trim_start_matches("GS");
    match digits.parse::<u32>() {
        Ok(number) if digits.len() <= 4 => format!("GS{number:04}"),
        _ => word,
    }
}

/// The codes that look most like the one that was asked for.
fn suggestion(wanted: &str) -> String {
    let mut near: Vec<(usize, &str)> = codes::all().map(|(code, _)| (distance(wanted, code), code)).collect();
    near.sort_unstable();
    let near: Vec<&str> =
        near.into_iter().take(3).filter(|(far, _)| *far <= 2).map(|(_, code)| code).collect();
    match near.is_empty() {
        true => "goldseam explain lists all codes".to_owned(),
        false => format!("did you mean {}? goldseam explain lists all codes", near.join(", ")),
    }
}

/// How many letters must change, come or go.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_however_they_are_written() {
        for text in ["GS0104", "gs104", "104", "error[GS0104]"] {
            let word = text.trim_start_matches("error");
            assert_eq!(normal(word), "GS0104", "{text}");
        }
        assert_eq!(normal("a2"), "A2");
    }

    #[test]
    fn near_codes_are_suggested() {
        assert!(suggestion(concat!("GS", "0199")).contains("GS01"));
        assert_eq!(suggestion("NONSENSE"), "goldseam explain lists all codes");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
