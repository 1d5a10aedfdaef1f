//! The global options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The store without --store.
pub(crate) const STORE_DEFAULT: &str = "sqlite:goldseam.db";

/// Global options.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The store: sqlite:FILE, postgres://USER@HOST/DATABASE or s3://BUCKET/PREFIX
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GOLDSEAM_STORE",
        hide_env_values = true,
        default_value = STORE_DEFAULT,
        help_heading = "Everywhere"
    )]
    pub(crate) store: String,
    /// A server to use instead of a store: https://HOST:PORT; its key is in GOLDSEAM_KEY or --key-file
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GOLDSEAM_SERVER",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub(crate) server: Option<String>,
    /// File with the server's key; must not be readable by other users
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Print one JSON document per line, for lists and streams
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) jsonl: bool,
    /// Print only ids
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// When to use colours; NO_COLOR disables them
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub(crate) color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Options that are on the command line, not from the default or the environment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GivenOptions {
    pub(crate) store: bool,
    pub(crate) server: bool,
}

/// Whether the output is JSON, without parsing the command line.
pub(crate) fn wants_json() -> bool {
    std::env::args().any(|arg| arg == "--json" || arg == "--jsonl")
}
