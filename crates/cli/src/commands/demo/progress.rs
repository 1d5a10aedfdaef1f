//! What is shown while the demo goes on: one line, and only to a person.

use std::time::Duration;

use goldseam::{Status, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::DemoArgs;
use super::drive::count;

/// A live line on stderr.
pub(crate) struct Progress {
    bar: ProgressBar,
    kills: usize,
}

impl Progress {
    /// A line, or nothing at all.
    pub(crate) fn new(args: &DemoArgs, visible: bool) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(args.runs as u64), target);
        let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} orders  {msg}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▉▊▋▌▍▎▏ "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, kills: args.kills }
    }

    /// How far it is.
    pub(crate) fn at(&self, ended: usize, kills: usize, runs: &[Summary]) {
        self.bar.set_position(ended as u64);
        let recovered: u32 = runs.iter().map(|run| run.recoveries).sum();
        let (running, waiting) = (count(runs, Status::Running), count(runs, Status::Waiting));
        self.bar.set_message(format!(
            "✖ {kills}/{} kills  ↻ {recovered} recoveries  ▶ {running} running  ● {waiting} asking",
            self.kills
        ));
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
