//! `goldseam config`.

use clap::Subcommand;
use serde_json::json;

use super::serve::SettingArgs;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;
use crate::table::Table;

/// What a server goes by
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List every setting, its value, and where the value comes from
    ///
    /// The command line goes before the environment, the environment before the file, the file before the default.
    #[command(
        after_help = "Examples:\n  goldseam config show\n  goldseam config show --config prod.toml --json"
    )]
    Show {
        #[command(flatten)]
        settings: SettingArgs,
    },
}

/// Carries it out.
pub(crate) fn run(app: &App, command: ConfigCommand) -> Result<Exit, Fail> {
    let ConfigCommand::Show { settings } = command;
    let settings = settings.gather(app)?;
    let shown = settings.shown();
    match () {
        () if app.json => out::json(&json!({ "items": shown })),
        () if app.jsonl => shown.iter().for_each(out::jsonl),
        () if app.quiet => shown.iter().for_each(|setting| out::line(setting.name)),
        () => {
            let mut table = Table::new(&["SETTING", "VALUE", "FROM", "WHAT"]);
            for setting in &shown {
                let value = if setting.value.is_empty() { "-".to_owned() } else { setting.value.clone() };
                let (name, help) = (setting.name.to_owned(), setting.help.to_owned());
                table.row(vec![name, value, setting.origin.clone(), help]);
            }
            app.table(&table);
        }
    }
    // Shown even if it makes no sense, and then it is said why.
    settings.config()?.redactor(|name| std::env::var(name).ok())?;
    Ok(Exit::Ok)
}
