//! What is shown while the demo goes on: one line, and only to a person.

use goldseam::{Status, Summary};
use indicatif::ProgressBar;

use super::DemoArgs;
use super::drive::count;
use crate::app::App;
use crate::progress;

/// A live line on stderr.
pub(crate) struct Progress {
    bar: ProgressBar,
    kills: usize,
}

impl Progress {
    /// A line, or nothing at all.
    pub(crate) fn new(app: &App, args: &DemoArgs) -> Self {
        let template = "{spinner} {bar:30} {pos}/{len} orders  {msg}  {elapsed}";
        Self { bar: progress::line(app, Some(args.runs as u64), template), kills: args.kills }
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
