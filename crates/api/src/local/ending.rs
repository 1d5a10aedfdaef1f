//! Ending runs, and taking back what was asked of them.

use goldseam::RunId;
use goldseam::core::command::Withdraw;
use goldseam::core::event::{Request, RequestWithdrawn};
use goldseam::core::{Command, Event};

use super::Local;
use super::change::by;
use super::once::Asked;
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::change::{Done, Reason};
use crate::doc::ending::{Cancelled, NewRetry, NewWithdrawal, Terminated, Withdrawn};
use crate::problem::Problem;

impl Local {
    pub(super) async fn request_cancel(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: Reason,
    ) -> Answer<Cancelled> {
        let Asked { note, keyed } = self.note(caller, ("cancel", run), (reason.by, reason.reason))?;
        let command = self.client.cancel_command(run, note).await?;
        let event = self.order(run, keyed, command).await?.end;
        let waits_for = self.client.cancel_waits_for(run).await?;
        Ok(Cancelled { ended: waits_for.is_none(), event, run: run.clone(), waits_for })
    }

    pub(super) async fn end_now(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Terminated> {
        if reason.reason.trim().is_empty() {
            return Err(Problem::bad_request("a termination needs a reason")
                .hint("say in `reason` (--reason) why the run is ended without undoing what it did"));
        }
        let Asked { note, keyed } = self.note(caller, ("terminate", run), (reason.by, reason.reason))?;
        if keyed {
            let done = self.client.termination(run).await?.filter(|done| done.left.note.id == note.id);
            match done {
                Some(done) if done.left.note.reason == note.reason => {
                    return Ok(Terminated { event: done.end, left: done.left, run: run.clone() });
                }
                Some(_) => return Err(Problem::key_reused(run)),
                None => {}
            }
            if let Ok(summary) = self.client.get(run).await
                && summary.has_seen(&note.id) == Some(true)
            {
                return Err(Problem::key_reused(run));
            }
        }
        let done = self.client.terminate(run, by(note)).await?;
        Ok(Terminated { event: done.end, left: done.left, run: run.clone() })
    }

    pub(super) async fn withdraw_request(
        &self,
        caller: &Caller,
        run: &RunId,
        new: NewWithdrawal,
    ) -> Answer<Withdrawn> {
        let NewWithdrawal { what, by, reason } = new;
        let Asked { note, keyed } = self.note(caller, ("withdraw", run), (by, reason))?;
        let asked = what.unwrap_or(Request::Cancel);
        let probe = Command::Withdraw(Withdraw { note: note.clone(), what: asked, lost: None });
        if let Some(landed) = self.before(run, keyed, &probe).await? {
            let made = landed.records.iter().find_map(|recorded| match &recorded.event {
                Event::RequestWithdrawn(RequestWithdrawn { what, .. }) => Some(*what),
                _ => None,
            });
            return match made {
                Some(made) if what.is_none_or(|what| what == made) => {
                    Ok(Withdrawn { event: landed.end, run: run.clone(), what: made })
                }
                _ => Err(Problem::key_reused(run)),
            };
        }
        let command = self.client.withdraw_command(run, what, note).await?;
        let what = command.what;
        let event = self.order(run, keyed, Command::Withdraw(command)).await?.end;
        Ok(Withdrawn { event, run: run.clone(), what })
    }

    pub(super) async fn try_again(&self, caller: &Caller, run: &RunId, new: NewRetry) -> Answer<Done> {
        let NewRetry { drop_cancel, by, reason } = new;
        let Asked { note, keyed } = self.note(caller, ("retry", run), (by, reason))?;
        let command = goldseam::client::dropping(drop_cancel, Command::Retry(note));
        let event = self.order(run, keyed, command).await?.end;
        Ok(Done { event, run: run.clone() })
    }
}
