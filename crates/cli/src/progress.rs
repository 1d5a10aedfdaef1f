//! A live progress line on stderr, on a terminal only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::app::App;

/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Creates a progress line, hidden if stderr is not a terminal.
pub(crate) fn line(app: &App, length: Option<u64>, template: &str) -> ProgressBar {
    let visible = std::io::stderr().is_terminal() && !app.wants_json() && !app.quiet;
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let line = ProgressBar::with_draw_target(length, target);
    let style = ProgressStyle::with_template(template);
    line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▉▊▋▌▍▎▏ "));
    line.enable_steady_tick(TICK);
    line
}
