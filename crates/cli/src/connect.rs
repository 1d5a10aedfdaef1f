//! Connecting to a server.

use std::path::Path;

use goldseam_api::RemoteApi;

use crate::error::{CliError, Exit};
use crate::redact::Redaction;

/// Creates a client for a server, with the key from a file or from the environment.
pub(crate) fn server(
    url: &str,
    key_file: Option<&Path>,
    redaction: &Redaction,
) -> Result<RemoteApi, CliError> {
    let key = match key_file {
        Some(file) => Some(from_file(file)?),
        None => std::env::var("GOLDSEAM_KEY").ok().filter(|key| !key.is_empty()),
    };
    key.iter().for_each(|key| redaction.hide(key));
    Ok(RemoteApi::new(url, key)?)
}

/// Reads a key from a file; refuses a file that other users can read.
fn from_file(file: &Path) -> Result<String, CliError> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = file.display();
    let cannot = |error: std::io::Error| CliError {
        code: None,
        message: format!("cannot read {shown}: {error}"),
        help: Some("pass a file with the key, as goldseam key create printed it".to_owned()),
        next: Vec::new(),
        exit: Exit::Usage,
    };
    let mode = std::fs::metadata(file).map_err(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(CliError::usage(
            format!("other users can read {shown}"),
            format!("run chmod 600 {shown}"),
        ));
    }
    Ok(std::fs::read_to_string(file).map_err(cannot)?.trim().to_owned())
}
