//! Conditions and groups of `goldseam ls`, and attributes of `goldseam start`.

use goldseam::search::{
    Condition, ConditionError, ConditionSubject, GroupBy, GroupByError, Literal, Operator,
};
use goldseam::unstable::core::TagKey;
use goldseam::{AttributeValue, EngineError};
use goldseam_api::Api;
use goldseam_api::doc::run::{GroupsDoc, GroupsQuery, RunsQuery};

use crate::app::App;
use crate::color::cell;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Columns of the table of groups.
const HEAD: &[&str] = &["COUNT", "GROUP", "FIRST", "LAST", "EXAMPLE", "WORKFLOWS"];

/// Parses `NAME=TEXT` or `NAME:=JSON`.
pub(crate) fn attribute(text: &str) -> Result<(String, AttributeValue), String> {
    let wrong = || format!("invalid attribute {text:?}; write NAME=TEXT or NAME:=JSON");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => {
            let value =
                serde_json::from_str(value).map_err(|error| format!("invalid value of {name}: {error}"))?;
            (name, value)
        }
        None => (name, AttributeValue::from(value)),
    };
    match TagKey::new(name) {
        Ok(_) => Ok((name.to_owned(), value)),
        Err(error) => Err(error.to_string()),
    }
}

/// Explains an error of a condition, with a caret under the place.
fn explained(error: ConditionError) -> CliError {
    let shown = error.caret();
    let error = CliError::from(EngineError::Condition(error));
    CliError { message: format!("{}\n{shown}", error.message), exit: Exit::Usage, ..error }
}

/// Checks the condition before the store is opened, and adds those of other options. Relative times become absolute, so
/// that all pages of a list use the same.
pub(crate) fn condition(
    app: &App,
    text: Option<&str>,
    roots: bool,
    tags: &[(String, String)],
) -> Result<Option<String>, CliError> {
    let mut all: Vec<Condition> = Vec::new();
    if let Some(text) = text {
        all.push(Condition::parse(text, app.now()).map_err(explained)?);
    }
    if roots {
        all.push(Condition::parse("root", app.now()).map_err(explained)?);
    }
    for (key, value) in tags {
        let subject = ConditionSubject::Tag(TagKey::new(key)?);
        let value = Literal::Text(value.clone());
        all.push(Condition::Compare { subject, operator: Operator::Equal, value });
    }
    Ok(all.into_iter().reduce(Condition::and).map(|condition| condition.to_string()))
}

/// Builds the query of a count or of groups from that of a list.
pub(crate) fn grouping(
    app: &App,
    by: &Option<String>,
    query: &RunsQuery,
    limit: Option<u32>,
) -> Result<GroupsQuery, CliError> {
    if let Some(by) = by {
        let parsed: Result<GroupBy, GroupByError> = by.parse();
        parsed.map_err(|error| CliError {
            code: Some(GroupByError::CODE.to_owned()),
            message: error.to_string(),
            help: Some(GroupByError::HINT.to_owned()),
            next: Vec::new(),
            exit: Exit::Usage,
        })?;
    }
    let quoted = |text: &str| Literal::Text(text.to_owned()).to_string();
    let mut parts: Vec<String> = Vec::new();
    parts.extend(query.status.as_ref().map(|words| format!("status in ({words})")));
    parts.extend(query.workflow.as_deref().map(|name| format!("workflow = {}", quoted(name))));
    parts.extend(query.cause.as_deref().map(|cause| format!("cause = {}", quoted(cause))));
    parts.extend(query.parent.as_deref().map(|parent| format!("parent = {}", quoted(parent))));
    parts.extend(
        query.since_ms.map(|at| format!("created >= {}", goldseam::search::iso(goldseam::Millis(at)))),
    );
    if let Some((key, value)) = query.tag.as_deref().and_then(|tag| tag.split_once('=')) {
        parts.push(format!("tag.{key} = {}", quoted(value)));
    }
    parts.extend(query.condition.as_ref().map(|condition| format!("({condition})")));
    let text = parts.join(" and ");
    let condition = match text.is_empty() {
        true => None,
        false => Some(Condition::parse(&text, app.now()).map_err(explained)?.to_string()),
    };
    Ok(GroupsQuery { by: by.clone(), condition, limit: limit.filter(|limit| *limit > 0) })
}

/// Counts runs, or groups them.
pub(crate) async fn groups(app: &App, api: &dyn Api, query: GroupsQuery) -> Result<Exit, CliError> {
    let found = api.groups(query).await?;
    if app.json {
        out::json(&found);
        return Ok(Exit::Ok);
    }
    match &found.by {
        None => out::line(found.total.to_string()),
        Some(_) if app.jsonl => found.groups.iter().for_each(out::jsonl),
        Some(_) if app.quiet => {
            found.groups.iter().for_each(|group| out::line(cell(name(group.key.as_deref()))));
        }
        Some(_) => {
            app.table(&table(app, &found));
            app.remark(&footer(&found));
        }
    }
    if !found.unreadable.is_empty() {
        app.warn(&format!(
            "{} unreadable runs are not counted; goldseam doctor lists them",
            found.unreadable.len()
        ));
    }
    if let Some(note) = &found.note {
        app.warn(note);
    }
    Ok(Exit::Ok)
}

fn name(key: Option<&str>) -> &str {
    key.unwrap_or("-")
}

fn table(app: &App, found: &GroupsDoc) -> TextTable {
    let now = app.now();
    let at = |at| if app.terminal { time::age(at, now) } else { time::iso(at) };
    let mut table = TextTable::new(HEAD);
    for group in &found.groups {
        let workflows: Vec<&str> = group.workflows.iter().map(String::as_str).collect();
        table.row(vec![
            group.count.to_string(),
            name(group.key.as_deref()).to_owned(),
            at(group.first),
            at(group.last),
            group.example.to_string(),
            workflows.join(" "),
        ]);
    }
    table
}

fn footer(found: &GroupsDoc) -> String {
    let noun = if found.total == 1 { "run" } else { "runs" };
    let left = match found.left_out {
        0 => String::new(),
        left => format!("   ({left} in further groups: --limit)"),
    };
    format!("{} {noun} in {} groups{left}", found.total, found.groups.len())
}
