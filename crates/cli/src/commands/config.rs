//! `goldseam config`.

use clap::Subcommand;
use goldseam_server::config::Shown;
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
    /// The command line overrides the environment, which overrides the file, which overrides the defaults. With
    /// --origin, also lists what each value overrides, and the names, type, range and default of each setting.
    #[command(
        after_help = "Examples:\n  goldseam config show\n  goldseam config show --origin\n  goldseam config show --config prod.toml --json\n  goldseam config show --set healing.silence_max=20s"
    )]
    Show {
        /// Explain each value: what it overrides, and how the setting can be set
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

pub(crate) fn run(app: &App, command: ConfigCommand) -> Result<Exit, CliError> {
    let ConfigCommand::Show { settings, origin } = command;
    let settings = settings.gather(app)?;
    let shown = settings.shown();
    match () {
        () if app.json => out::json(&json!({ "items": shown })),
        () if app.jsonl => shown.iter().for_each(out::jsonl),
        () if app.quiet => shown.iter().for_each(|setting| out::line(setting.name)),
        () if origin => shown.iter().for_each(explain),
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

/// Prints one setting with everything that is known about it.
fn explain(setting: &Shown) {
    let Shown { name, value, origin, help, default, env, allowed, overrides } = setting;
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    out::line(format!("{name} = {} ({origin})", or_none(value)));
    overrides.iter().for_each(|other| out::line(format!("    overrides    {other}")));
    let default = or_none(default);
    for (what, text) in
        [("what", *help), ("allowed", allowed), ("default", &default), ("environment", &env.join(", "))]
    {
        out::line(format!("    {what:<12} {text}"));
    }
}
