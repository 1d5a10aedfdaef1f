//! Ending runs from outside, and withdrawing pending requests.
//!
//! A request that needs a worker stays pending in the run's log. The caller learns what it waits for.

use goldseam_core::command::Withdraw;
use goldseam_core::decide::Refusal;
use goldseam_core::event::{Note, Request, Terminated};
use goldseam_core::{Command, Hint, Path, RunId, Seq, State};

use crate::client::{By, Client};
use crate::ledger::error::{EngineError, refused};
use crate::ledger::salvage::left_by;

/// The result of a request to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// Where the log ends now.
    pub end: Seq,
    /// The worker that the request waits for; none: the run has ended.
    pub waits_for: Option<Hint>,
}

/// The result of a termination.
#[derive(Debug, Clone, PartialEq)]
pub struct Termination {
    /// Where the log ends now.
    pub end: Seq,
    /// The effects that were left standing.
    pub left: Terminated,
}

/// The result of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// Where the log ends now.
    pub end: Seq,
    /// The request.
    pub what: Request,
}

impl Client {
    /// Asks a run to cancel. It ends `cancelled` after its compensations. A run that needs no worker for that ends at
    /// once.
    ///
    /// ```
    /// use goldseam::{Status, prelude::*};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// client.cancel(run.id(), "no longer needed".into()).await?;
    /// // The run had not begun, so no worker is needed.
    /// assert_eq!(run.status().await?, Status::Cancelled);
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        let command = self.cancel_command(run, note).await?;
        self.send_command(run, command).await
    }

    /// Like [`Client::cancel`], but also reports what the request waits for.
    ///
    /// ```
    /// use goldseam::{Status, prelude::*};
    ///
    /// async fn trip(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("car", || async { Ok(()) }).compensate(|()| async { Ok(()) }).await?;
    ///     ctx.signal("go").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let engine = Engine::open(&url).await?.workflow("trip", trip).start().await?;
    /// # let run = engine.start(trip, "t-1", &()).await?;
    /// # run.wait_until(|run| run.status == Status::Waiting).await?;
    /// engine.shutdown().await;
    /// // Only an engine with the workflow can undo the booking of the car.
    /// let client = goldseam::connect(&url).await?;
    /// let cancelled = client.request_cancel(run.id(), "ill".into()).await?;
    /// assert!(cancelled.waits_for.is_some());
    /// assert_eq!(client.cancel_waits_for(run.id()).await?, cancelled.waits_for);
    /// // Until then the request can be withdrawn.
    /// client.withdraw(run.id(), None, "well again".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn request_cancel(&self, run: &RunId, by: By) -> Result<Cancelled, EngineError> {
        let end = self.cancel(run, by).await?;
        Ok(Cancelled { end, waits_for: self.cancel_waits_for(run).await? })
    }

    /// Creates the command that cancels a run, which differs if no live node has the run's code.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let note = client.note("no longer needed".into());
    /// let command = client.cancel_command(run.id(), note).await?;
    /// client.carry_out(run.id(), &command).await?;
    /// # Ok(()) }
    /// ```
    pub async fn cancel_command(&self, run: &RunId, note: Note) -> Result<Command, EngineError> {
        let Some(summary) = self.ledger().summary(run).await? else { return Ok(Command::Cancel(note)) };
        // A run that is parked or never started needs no look at the nodes.
        if summary.status.is_terminal() || summary.parked || !summary.started {
            return Ok(Command::Cancel(note));
        }
        let liveness = self.healer().liveness().await?;
        let owned = liveness.owner(summary.owner.as_ref(), summary.claimed_at).is_alive();
        if owned || liveness.can_run(&summary) {
            return Ok(Command::Cancel(note));
        }
        Ok(Command::CancelUnmanned { note, lost: summary.owner })
    }

    /// The worker that a pending request to cancel waits for; none: the run has ended.
    pub async fn cancel_waits_for(&self, run: &RunId) -> Result<Option<Hint>, EngineError> {
        let summary = self.get(run).await?;
        if summary.status.is_terminal() {
            return Ok(None);
        }
        let liveness = self.healer().liveness().await?;
        Ok(Some(liveness.worker_for(&summary)))
    }

    /// The worker that a pending jump waits for; none: no jump is pending.
    ///
    /// ```
    /// use goldseam::client::Jump;
    /// use goldseam::unstable::core::{Command, event::Request};
    /// use goldseam::{Path, Status, prelude::*};
    ///
    /// async fn trip(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("car", || async { Ok(()) }).compensate(|()| async { Ok(()) }).await?;
    ///     ctx.signal("go").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("trip", trip).start().await?;
    /// # let run = engine.start(trip, "t-1", &()).await?;
    /// # run.wait_until(|run| run.status == Status::Waiting).await?;
    /// # engine.shutdown().await;
    /// # let client = goldseam::connect(&url).await?;
    /// let jump = Jump { compensate: true, ..Jump::default() };
    /// client.jump(run.id(), &Path::new("car")?, jump).await?;
    /// println!("waits for {:?}", client.jump_waits_for(run.id()).await?);
    /// let note = client.note("the car is fine".into());
    /// let withdraw = client.withdraw_command(run.id(), Some(Request::Jump), note).await?;
    /// client.carry_out(run.id(), &Command::Withdraw(withdraw)).await?;
    /// assert_eq!(client.jump_waits_for(run.id()).await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn jump_waits_for(&self, run: &RunId) -> Result<Option<Hint>, EngineError> {
        let state = self.state(run).await?;
        if state.jump.is_none() {
            return Ok(None);
        }
        let liveness = self.healer().liveness().await?;
        Ok(Some(liveness.worker_for(&state.summary).text(format!(" to undo {}", undoes(&state)))))
    }

    /// Ends a run now, without its code and without compensation. Works on every run that has not ended, even if its
    /// log is damaged. Asks open children to cancel.
    ///
    /// ```
    /// use goldseam::Status;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let ended = client.terminate(run.id(), "its workflow was deleted".into()).await?;
    /// assert!(ended.left.standing.is_empty(), "no completed step is left to undo by hand");
    /// assert_eq!(run.status().await?, Status::Cancelled);
    /// assert_eq!(client.termination(run.id()).await?, Some(ended));
    /// # Ok(()) }
    /// ```
    pub async fn terminate(&self, run: &RunId, by: By) -> Result<Termination, EngineError> {
        let note = self.note(by);
        let ended = match self.carry_out(run, &Command::Terminate(note.clone())).await {
            Ok(committed) => match left_by(&committed.records) {
                Some(left) => Ok(Termination { end: committed.end, left }),
                // A repeat of a termination that is already in the log.
                None => self.termination(run).await?.ok_or_else(|| refused(run, Refusal::NoSuchRun)),
            },
            Err(EngineError::Corrupt { corrupt, .. }) => {
                let (end, left) = self.healer().terminate_damaged(run, &note, &corrupt).await?;
                Ok(Termination { end, left })
            }
            Err(error) => Err(error),
        };
        let left = match &ended {
            Ok(termination) => Some(termination.left.clone()),
            // The process that ended the run may have died before it notified the children.
            Err(EngineError::Refused { refusal: Refusal::Finished { .. }, .. }) => {
                self.termination(run).await?.map(|termination| termination.left)
            }
            Err(_) => None,
        };
        for child in left.iter().flat_map(|left| &left.children) {
            self.cancel_orphan(run, child).await;
        }
        ended
    }

    async fn cancel_orphan(&self, run: &RunId, child: &RunId) {
        let id = format!("parent-terminated:{run}");
        let by = By { who: None, reason: format!("its parent {run} was terminated"), id: Some(id) };
        // The author of the parent may have chosen an id that another run had.
        match self.get(child).await {
            Ok(summary) if summary.parent.as_ref() != Some(run) => return,
            _ => {}
        }
        match self.cancel(child, by).await {
            Ok(_) | Err(EngineError::Refused { .. }) => {}
            Err(error) => tracing::warn!(%run, %child, %error, "failed to cancel child of terminated run"),
        }
    }

    /// The termination of a run by an operator, if there was one.
    pub async fn termination(&self, run: &RunId) -> Result<Option<Termination>, EngineError> {
        let ended = self.ledger.termination(run).await?;
        Ok(ended.map(|(end, left)| Termination { end, left }))
    }

    /// Withdraws a jump or a request to cancel that no worker has acted on. Without `what`, withdraws the only
    /// pending request.
    pub async fn withdraw(
        &self,
        run: &RunId,
        what: Option<Request>,
        by: By,
    ) -> Result<Withdrawn, EngineError> {
        let note = self.note(by);
        let command = self.withdraw_command(run, what, note).await?;
        let what = command.what;
        let end = self.send_command(run, Command::Withdraw(command)).await?;
        Ok(Withdrawn { end, what })
    }

    /// Creates the command that withdraws a request; it names the request and a lost owner.
    pub async fn withdraw_command(
        &self,
        run: &RunId,
        what: Option<Request>,
        note: Note,
    ) -> Result<Withdraw, EngineError> {
        let summary = self.get(run).await?;
        let what = match (what, summary.jump.is_some(), summary.is_cancel_pending()) {
            (Some(what), ..) => what,
            (None, true, true) => {
                let why = "a jump and a request to cancel are both pending; name one of them";
                return Err(refused(run, Refusal::NothingToDo { why }));
            }
            (None, true, false) => Request::Jump,
            (None, false, _) => Request::Cancel,
        };
        let lost = match &summary.owner {
            None => None,
            Some(owner) => {
                let liveness = self.healer().liveness().await?;
                let alive = liveness.owner(Some(owner), summary.claimed_at).is_alive();
                (!alive).then(|| owner.clone())
            }
        };
        Ok(Withdraw { note, what, lost })
    }
}

/// Lists the steps that a pending jump compensates.
pub(crate) fn undoes(state: &State) -> String {
    let target = state.jump.as_ref().and_then(|jump| state.ops.get(&jump.to));
    let left = state.to_undo(target.map_or(Seq::ZERO, |op| op.first.before()));
    let steps: Vec<&str> = left.iter().map(Path::as_str).collect();
    if steps.is_empty() { "no further steps".to_owned() } else { steps.join(", ") }
}
