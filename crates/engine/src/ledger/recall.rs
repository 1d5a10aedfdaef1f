//! A command is decided on as much of the log as it takes: the row, the state since the run last began anew, and, where
//! that does not say whether the command was taken before, what lies before that.

use goldseam_core::codec::decode;
use goldseam_core::decide::{Decision, Refusal};
use goldseam_core::summary::command_id;
use goldseam_core::{Command, Millis, RunId, Seq, decide};

use crate::ledger::commit::{Known, Ledger, Patience};
use crate::ledger::error::EngineError;

/// Events searched at a time.
const PAGE: u32 = 1_000;

impl Ledger {
    /// What a command comes to, and what is known of the run by then.
    pub(crate) async fn decided(
        &self,
        patience: &mut Patience,
        known: Known,
        run: &RunId,
        (command, now): (&Command, Millis),
    ) -> Result<(Known, Decision), EngineError> {
        let refused = |refusal| EngineError::Refused { run: run.clone(), refusal };
        let mut loaded = match known {
            Known::Full(loaded) => loaded,
            known => match decide(known.view(), command, now, &self.limits) {
                Err(Refusal::NeedsHistory) => Box::new(patience.insist(self, || self.load(run)).await?),
                decision => return Ok((known, decision.map_err(refused)?)),
            },
        };
        if let Some(id) = loaded.state.unsure_of(command) {
            let base = loaded.state.summary.base;
            if patience.insist(self, || self.was_taken(run, id, base)).await? {
                loaded.state.recall(id);
            }
        }
        let known = Known::Full(loaded);
        let decision = decide(known.view(), command, now, &self.limits).map_err(refused)?;
        Ok((known, decision))
    }

    /// Whether a command with this id was taken before `base`. What cannot be read says nothing.
    async fn was_taken(&self, run: &RunId, id: &str, base: Seq) -> Result<bool, EngineError> {
        let mut after = Seq::ZERO;
        while after.next() < base {
            let page = self.store.read(run, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let early = page.iter().take_while(|record| record.seq < base);
            let mut events = early.filter_map(|record| decode(record.seq, &record.body).ok());
            if events.any(|recorded| command_id(&recorded.event).as_deref() == Some(id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
