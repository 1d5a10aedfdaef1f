//! `goldseam published`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::dialogue::PublishedDoc;

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Show the values that a run publishes
///
/// The code of a run publishes values under names. The latest value of a name can be read at any time, also after the
/// end of the run; reading does not wake the run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  goldseam published imp-3\n  goldseam published imp-3 progress")]
pub(crate) struct PublishedArgs {
    /// The run
    run: String,
    /// Show only the value with this name
    name: Option<String>,
}

pub(crate) async fn run(app: &App, args: PublishedArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    if let Some(name) = args.name {
        let published = api.published(&run, &name).await?;
        match app.wants_json() {
            true => out::json(&published),
            false => out::line(published.value.as_str()),
        }
        return Ok(Exit::Ok);
    }
    let all = api.published_all(&run).await?;
    match () {
        () if app.json => out::json(&all),
        () if app.jsonl => all.items.iter().for_each(out::jsonl),
        () if app.quiet => all.items.iter().for_each(|published| out::line(published.name.as_str())),
        () => {
            app.table(&table(app, &all.items));
            if all.items.is_empty() {
                app.remark(&format!("{run} has not published any value"));
            }
        }
    }
    Ok(Exit::Ok)
}

fn table(app: &App, items: &[PublishedDoc]) -> TextTable {
    let mut table = TextTable::wrapping(&["NAME", "AGE", "VALUE"]);
    for PublishedDoc { name, at, value, .. } in items {
        table.row(vec![name.to_string(), time::age(at.0, app.now()), value.as_str().to_owned()]);
    }
    table
}
