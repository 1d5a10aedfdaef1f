//! How a server is reached, and with which key.

use std::path::Path;

use goldseam_api::Remote;

use crate::fail::{Exit, Fail};
use crate::hidden::Hidden;

/// A server, and whoever may ask it.
pub(crate) fn server(url: &str, key_file: Option<&Path>, hidden: &Hidden) -> Result<Remote, Fail> {
    let key = match key_file {
        Some(file) => Some(from_file(file)?),
        None => std::env::var("GOLDSEAM_KEY").ok().filter(|key| !key.is_empty()),
    };
    key.iter().for_each(|key| hidden.hide(key));
    Ok(Remote::new(url, key)?)
}

/// A key is only worth something while nobody else knows it.
fn from_file(file: &Path) -> Result<String, Fail> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = file.display();
    let cannot = |error: std::io::Error| Fail {
        code: None,
        message: format!("{shown} cannot be read: {error}"),
        help: Some("name a file that holds the key, as goldseam key create printed it".to_owned()),
        exit: Exit::Usage,
    };
    let mode = std::fs::metadata(file).map_err(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Fail::usage(format!("{shown} can be read by others"), format!("chmod 600 {shown}")));
    }
    Ok(std::fs::read_to_string(file).map_err(cannot)?.trim().to_owned())
}
