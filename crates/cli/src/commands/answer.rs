//! `goldseam answer`.

use clap::Args;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::NewAnswer;

use super::actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::payload;

/// Answer a question of a run
///
/// An answer that does not match the question's form is refused, and the question stays open. `goldseam show RUN` lists
/// open questions with the command that answers each.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam answer ord-7 release ship\n  goldseam answer ord-7 review '{\"ok\":true,\"by\":\"ana\"}'\n  goldseam answer ord-7 review @review.json"
)]
pub(crate) struct AnswerArgs {
    /// The run
    run: String,
    /// The question
    question: String,
    /// The answer: JSON, bare text, @file, or - for stdin
    #[arg(allow_hyphen_values = true)]
    answer: String,
    /// Who answers; defaults to the user name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Deduplicates: a repeat with the same id changes nothing
    #[arg(long)]
    id: Option<String>,
}

pub(crate) async fn run(app: &App, args: AnswerArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let question = Path::new(&args.question)?;
    let new = NewAnswer { answer: payload::read_or_text(&args.answer)?, since: None, by: None, id: args.id };
    let answered = app.api().await?.answer(&actor::caller(args.by), &run, &question, new).await?;
    Ok(app.print_result(&run, &answered, &format!("answered {question} of {run}")))
}
