//! `goldseam answer`.

use clap::Args;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::NewAnswer;

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::payload;

/// Answer a question that a run asks
///
/// An answer that does not fit the question's form is refused with the reason, and the question
/// stays open. `goldseam show RUN` lists open questions with the line to type.
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
    /// Who answers; the name of the user unless given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Deduplicates: the same id again changes nothing
    #[arg(long)]
    id: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: AnswerArgs) -> Result<Exit, Fail> {
    let (run, question) = (RunId::new(&args.run)?, Path::new(&args.question)?);
    let new = NewAnswer { answer: payload::read_or_text(&args.answer)?, since: None, by: None, id: args.id };
    let answered = app.api().await?.answer(&who::caller(args.by), &run, &question, new).await?;
    Ok(app.did(&run, &answered, &format!("answered {question} of {run}")))
}
