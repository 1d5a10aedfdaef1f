//! Progress on stderr: a live line on a terminal, otherwise a plain line every few seconds.

use std::io::IsTerminal;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::app::App;
use crate::{out, text};

/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// How often a plain line is printed.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

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

/// Counts examined runs and reports the count.
#[derive(Debug)]
pub(crate) struct ExaminationProgress {
    count: Arc<AtomicU64>,
    line: ProgressBar,
    is_plain: bool,
}

impl ExaminationProgress {
    /// Starts a count. Without a terminal on stderr, it is reported in plain lines; with -q or JSON, not at all.
    pub(crate) fn start(app: &App) -> Self {
        let is_plain = !std::io::stderr().is_terminal() && !app.wants_json() && !app.quiet;
        let line = line(app, None, "{spinner} {msg} runs examined  {elapsed}");
        Self { count: Arc::new(AtomicU64::new(0)), line, is_plain }
    }

    /// Returns the function to call with the number of runs examined so far.
    pub(crate) fn on_progress(&self) -> impl FnMut(u64) + Send + use<> {
        let count = Arc::clone(&self.count);
        let line = self.line.clone();
        move |scanned| {
            count.store(scanned, Ordering::Relaxed);
            line.set_message(text::thousands(scanned));
        }
    }

    /// Waits for the examination, and reports every few seconds.
    pub(crate) async fn during<T>(&self, examination: impl Future<Output = T>) -> T {
        let mut examination = pin!(examination);
        let mut seconds = 0;
        loop {
            tokio::select! {
                done = &mut examination => return done,
                () = tokio::time::sleep(REPORT_INTERVAL), if self.is_plain => {}
            }
            seconds += REPORT_INTERVAL.as_secs();
            out::note(match self.count.load(Ordering::Relaxed) {
                0 => format!("still examining after {seconds}s"),
                scanned => format!("{} runs examined after {seconds}s", text::thousands(scanned)),
            });
        }
    }
}

impl Drop for ExaminationProgress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
