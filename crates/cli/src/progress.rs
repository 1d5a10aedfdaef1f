//! Progress on stderr: a live line on a terminal, otherwise a plain line every few seconds.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

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

/// Counts examined runs and reports the count until it is dropped.
#[derive(Debug)]
pub(crate) struct Examined {
    count: Arc<AtomicU64>,
    line: ProgressBar,
    reporter: Option<JoinHandle<()>>,
}

impl Examined {
    /// Starts to report. Without a terminal on stderr, prints a plain line every few seconds; nothing with -q or JSON.
    pub(crate) fn start(app: &App) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let is_plain = !std::io::stderr().is_terminal() && !app.wants_json() && !app.quiet;
        let reporter = is_plain.then(|| tokio::spawn(report(Arc::clone(&count))));
        Self { count, line: line(app, None, "{spinner} {msg} runs examined  {elapsed}"), reporter }
    }

    /// Returns the function to call with the number of runs examined so far.
    pub(crate) fn on_progress(&self) -> impl FnMut(u64) + Send + use<> {
        let (count, line) = (Arc::clone(&self.count), self.line.clone());
        move |scanned| {
            count.store(scanned, Ordering::Relaxed);
            line.set_message(text::thousands(scanned));
        }
    }
}

impl Drop for Examined {
    fn drop(&mut self) {
        self.line.finish_and_clear();
        if let Some(reporter) = &self.reporter {
            reporter.abort();
        }
    }
}

async fn report(count: Arc<AtomicU64>) {
    let mut seconds = 0;
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        seconds += REPORT_INTERVAL.as_secs();
        out::note(match count.load(Ordering::Relaxed) {
            0 => format!("still examining after {seconds}s"),
            scanned => format!("{} runs examined after {seconds}s", text::thousands(scanned)),
        });
    }
}
