//! The progress line of the demo.

use goldseam::{Status, Summary};
use indicatif::ProgressBar;

use super::DemoArgs;
use super::drive::count;
use crate::app::App;
use crate::progress;

/// A live progress line on stderr.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    kills: usize,
}

impl ProgressLine {
    pub(crate) fn new(app: &App, args: &DemoArgs) -> Self {
        let template = "{spinner} {bar:30} {pos}/{len} orders  {msg}  {elapsed}";
        Self { bar: progress::line(app, Some(args.runs as u64), template), kills: args.kills }
    }

    /// Updates the line.
    pub(crate) fn at(&self, ended: usize, kills: usize, runs: &[Summary]) {
        self.bar.set_position(ended as u64);
        let recovered: u32 = runs.iter().map(|run| run.recoveries).sum();
        let running = count(runs, Status::Running);
        let waiting = count(runs, Status::Waiting);
        self.bar.set_message(format!(
            "✖ {kills}/{} kills  ↻ {recovered} recoveries  ▶ {running} running  ● {waiting} asking",
            self.kills
        ));
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
