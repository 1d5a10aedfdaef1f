//! `goldseam questions`.

use clap::Args;
use goldseam::RunId;
use goldseam::unstable::core::WorkflowName;
use goldseam_api::doc::PageDoc;
use goldseam_api::doc::run::{QuestionDoc, QuestionsQuery};

use super::pages;
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

const HEAD: &[&str] = &["RUN", "WORKFLOW", "QUESTION", "AGE", "FORM", "PROMPT", "ANSWER WITH"];
const HEAD_TERMINAL: &[&str] = &["RUN", "WORKFLOW", "QUESTION", "AGE", "PROMPT (FORM) → ANSWER WITH"];
/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["WORKFLOW", "AGE", "QUESTION"];

/// List open questions, those of the oldest runs first
///
/// Each line ends with the command that answers the question. -q prints these commands only.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam questions\n  goldseam questions --workflow order\n  goldseam questions --run ord-7\n  goldseam questions --json | jq -r '.items[] | select(.path == \"approve\") | .run'\n\nTo answer one: goldseam answer RUN QUESTION ANSWER"
)]
pub(crate) struct QuestionsArgs {
    /// Only questions of runs of this workflow
    #[arg(long, conflicts_with = "run")]
    workflow: Option<String>,
    /// Only questions of this run
    #[arg(long)]
    run: Option<String>,
    /// Maximum number of runs whose questions are listed
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) async fn run(app: &App, args: QuestionsArgs) -> Result<Exit, CliError> {
    args.workflow.as_ref().map(WorkflowName::new).transpose()?;
    let run = args.run.as_ref().map(RunId::new).transpose()?;
    let api = app.api().await?;
    let page = match run {
        Some(run) => PageDoc::new(api.questions_of(&run).await?.items, None),
        None => {
            let query = |after, limit| QuestionsQuery { workflow: args.workflow.clone(), after, limit };
            pages::gather(args.limit, None, |after, limit| api.questions(query(after, Some(limit)))).await?
        }
    };
    match () {
        () if app.json => out::json(&page),
        () if app.jsonl => page.items.iter().for_each(out::jsonl),
        () if app.quiet => page.items.iter().for_each(|question| out::line(&question.open.command)),
        () => {
            app.table(&table(app, &page.items));
            if page.items.is_empty() {
                app.remark("no open questions");
            }
        }
    }
    pages::warn_if_cut(app, &page);
    Ok(Exit::Ok)
}

fn table(app: &App, questions: &[QuestionDoc]) -> TextTable {
    let head = if app.terminal { HEAD_TERMINAL } else { HEAD };
    let mut table = TextTable::wrapping(head).dropping(OPTIONAL);
    for QuestionDoc { run, workflow, open } in questions {
        let input = &open.input;
        let prompt = text::one_line(&input.prompt);
        let form = text::form(&input.form);
        let first = [run.to_string(), workflow.to_string(), input.path.to_string()].into_iter();
        let rest = match app.terminal {
            true => {
                let command = app.colors.apply(Hue::Bold, format!("→ {}", open.command));
                let age = time::age(input.since, app.now());
                let blank = vec![String::new(); HEAD_TERMINAL.len() - 1];
                table.row(first.chain([age, format!("{prompt} ({form})")]).collect());
                table.row(blank.into_iter().chain([command]).collect());
                continue;
            }
            false => [time::iso(input.since), form, prompt, open.command.clone()],
        };
        table.row(first.chain(rest).collect());
    }
    table
}
