//! `goldseam config`.

use clap::Subcommand;
use serde_json::json;

use super::serve::SettingArgs;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::out;
use crate::table::TextTable;

/// Show the settings of a server
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List every setting, its value, and where the value comes from
    ///
    /// The command line overrides the environment, which overrides the file, which overrides the defaults.
    #[command(
        after_help = "Examples:\n  goldseam config show\n  goldseam config show --config prod.toml --json"
    )]
    Show {
        #[command(flatten)]
        settings: SettingArgs,
    },
}

pub(crate) fn run(app: &App, command: ConfigCommand) -> Result<Exit, CliError> {
    let ConfigCommand::Show { settings } = command;
    let settings = settings.gather(app)?;
    let shown = settings.shown();
    match () {
        () if app.json => out::json(&json!({ "items": shown })),
        () if app.jsonl => shown.iter().for_each(out::jsonl),
        () if app.quiet => shown.iter().for_each(|setting| out::line(setting.name)),
        () => {
            let mut table = TextTable::new(&["SETTING", "VALUE", "FROM", "WHAT"]);
            for setting in &shown {
                let value = if setting.value.is_empty() { "-".to_owned() } else { setting.value.clone() };
                table.row(vec![
                    setting.name.to_owned(),
                    value,
                    setting.origin.clone(),
                    setting.help.to_owned(),
                ]);
            }
            app.table(&table);
        }
    }
    // Invalid settings are shown first, then reported.
    settings.config()?.redactor(|name| std::env::var(name).ok())?;
    Ok(Exit::Ok)
}
