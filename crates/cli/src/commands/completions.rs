//! `goldseam completions`.

use clap::Args;
use clap_complete::Shell;

use crate::error::{CliError, Exit};
use crate::{args, out};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam completions bash > ~/.local/share/bash-completion/completions/goldseam\n  goldseam completions fish > ~/.config/fish/completions/goldseam.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "goldseam", &mut script);
    out::raw(&String::from_utf8_lossy(&script));
    Ok(Exit::Ok)
}
