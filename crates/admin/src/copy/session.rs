//! The start and the end of a copy: both stores have no live nodes, and both are marked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::lock::Lock;
use goldseam_store::{Expect, NodeSeen, NodeState, Pulse, Store, StoreError, Written};

use super::Copier;
use super::report::CopyFinding;
use super::side::{LockPages, Pages, Runs, Side, TaskPages};
use goldseam_engine::is_node_name;
use goldseam_engine::ledger::copy_mark::{Mark, Marked, Role};
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::refusal::CopyRefusal;
use goldseam_engine::ledger::retry::{self, Retries};

/// A node whose lock is not held counts as gone after this silence: by then it no longer trusts its ownership.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// The state of a copy according to both marks.
#[derive(Debug, PartialEq, Eq)]
enum CopyState {
    /// Not started.
    Fresh,
    /// The source is closed for this copy; the destination is not marked yet.
    Closed,
    /// Both are marked; the destination has this role.
    UnderWay(Role),
    /// Finished.
    Over(Mark),
}

fn copy_state(ours: Option<&Mark>, theirs: Option<&Mark>, to: &str) -> Result<CopyState, EngineError> {
    let same = |mark: &&Mark| theirs.is_some_and(|theirs| theirs.copy == mark.copy);
    let other = |theirs: &Mark| CopyRefusal::OtherCopy { store: to.to_owned(), words: theirs.to_string() };
    match (ours.filter(|ours| !ours.role.is_open()), theirs) {
        // Both reads returned the same record.
        (Some(ours), Some(theirs)) if ours == theirs => {
            Err(CopyRefusal::Same { store: to.to_owned() }.into())
        }
        (None, Some(theirs)) if !theirs.role.is_open() => Err(other(theirs).into()),
        (None, _) => Ok(CopyState::Fresh),
        (Some(ours), Some(theirs)) if same(&ours) && theirs.role.is_filling() => {
            Ok(CopyState::UnderWay(theirs.role))
        }
        (Some(ours), Some(_)) if same(&ours) && ours.role == Role::MovedTo => {
            Ok(CopyState::Over(ours.clone()))
        }
        (Some(ours), theirs) if ours.role == Role::CopyingTo && ours.other == to => match theirs {
            Some(theirs) if !theirs.role.is_open() => Err(other(theirs).into()),
            _ => Ok(CopyState::Closed),
        },
        (Some(ours), _) => match ours.closed() {
            Some(closed) => Err(StoreError::from(closed).into()),
            None => Ok(CopyState::Fresh),
        },
    }
}

/// The terms of a copy. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Session(Arc<Terms>);

#[derive(Debug)]
struct Terms {
    /// Nodes of the source.
    nodes: HashSet<String>,
    /// When the copy began, by the source's clock; the same after every restart.
    at: Millis,
    merges: bool,
    permit: Permit,
}

/// What allows a copy to write.
#[derive(Debug)]
enum Permit {
    /// Nothing: a dry run.
    Dry,
    /// Nothing: the copy was finished before.
    Over(Mark),
    /// The marks of both stores.
    Marks { ours: Box<Marked>, theirs: Box<Marked> },
    /// The destination is a backup in the making, which no other process knows. The source stays open; events of
    /// appends after the cut are left out.
    Backup {
        /// The cut.
        cut: Millis,
    },
    /// The mark of the destination: the source is a backup.
    Restore { theirs: Box<Marked> },
}

impl Session {
    pub(super) fn is_node(&self, owner: &str) -> bool {
        is_node_name(owner) || self.0.nodes.contains(owner)
    }

    pub(super) fn at(&self) -> Millis {
        self.0.at
    }

    pub(super) fn merges(&self) -> bool {
        self.0.merges
    }

    pub(super) fn is_dry(&self) -> bool {
        matches!(self.0.permit, Permit::Dry | Permit::Over(_))
    }

    /// The cut of a backup.
    pub(super) fn cut(&self) -> Option<Millis> {
        match self.0.permit {
            Permit::Backup { cut } => Some(cut),
            _ => None,
        }
    }

    /// Whether claimants and holders lose what they have: the original store may still be in use, and they belong to
    /// it.
    pub(super) fn ends_claims(&self) -> bool {
        matches!(self.0.permit, Permit::Backup { .. } | Permit::Restore { .. })
    }

    /// Whether holds of locks end.
    pub(super) fn ends_holds(&self) -> bool {
        matches!(self.0.permit, Permit::Restore { .. })
    }
}

impl Copier {
    /// Checks that no node lives in either store, and closes both.
    pub(super) async fn begin(&self) -> Result<Session, EngineError> {
        self.check_no_live_nodes().await?;
        let (ours, theirs) = self.marks().await?;
        let (ours, role) = match copy_state(ours.mark.as_ref(), theirs.mark.as_ref(), &self.to.name)? {
            CopyState::Over(mark) => return self.session(mark.since, false, Permit::Over(mark)).await,
            CopyState::UnderWay(role) => (ours, role),
            CopyState::Closed => (ours, self.first_role().await?),
            CopyState::Fresh => {
                let role = self.first_role().await?;
                (self.close_source(&ours).await?, role)
            }
        };
        let Some(mark) = ours.mark.clone() else { return Err(self.overtaken()) };
        let filling = Mark {
            role,
            other: self.from.name.to_string(),
            copy: mark.copy.clone(),
            since: self.to.ask("asking the time", || self.to.store().now()).await?,
        };
        let theirs = self.put_mark(&self.to, &theirs, Some(&filling)).await?;
        // After the marks: a node that joins now sees them.
        if let Err(alive) = self.check_no_live_nodes().await {
            self.give_up(&ours, &theirs).await?;
            return Err(alive);
        }
        let merges = role == Role::MergingFrom;
        let ours = Box::new(ours);
        let theirs = Box::new(theirs);
        self.session(mark.since, merges, Permit::Marks { ours, theirs }).await
    }

    /// Prepares a dry run. A refusal is reported and does not end it.
    pub(super) async fn preview(&self) -> Result<(Session, Option<CopyFinding>), EngineError> {
        let refused = match self.check_no_live_nodes().await.and(self.may_begin().await) {
            Ok(()) => None,
            Err(error @ (EngineError::Copy(_) | EngineError::Store(StoreError::Refused { .. }))) => {
                Some(CopyFinding::of_store(&self.to.name, &error))
            }
            Err(error) => return Err(error),
        };
        let now = self.from.ask("asking the time", || self.from.store().now()).await?;
        let (ours, theirs) = self.marks().await?;
        let at = ours.mark.map_or(now, |mark| mark.since);
        let merges = self.options.merge || theirs.mark.is_some_and(|mark| mark.role == Role::MergingFrom);
        Ok((self.session(at, merges, Permit::Dry).await?, refused))
    }

    async fn may_begin(&self) -> Result<(), EngineError> {
        let (ours, theirs) = self.marks().await?;
        match copy_state(ours.mark.as_ref(), theirs.mark.as_ref(), &self.to.name)? {
            CopyState::Fresh | CopyState::Closed => self.first_role().await.map(drop),
            CopyState::UnderWay(..) | CopyState::Over(_) => Ok(()),
        }
    }

    async fn session(&self, at: Millis, merges: bool, permit: Permit) -> Result<Session, EngineError> {
        let nodes = self.from.ask("listing nodes", || self.from.store().nodes()).await?;
        let nodes = nodes.iter().map(|seen| seen.record.id.as_str().to_owned()).collect();
        Ok(Session(Arc::new(Terms { nodes, at, merges, permit })))
    }

    async fn marks(&self) -> Result<(Marked, Marked), EngineError> {
        Ok((Marked::of(&**self.from.store()).await?, Marked::of(&**self.to.store()).await?))
    }

    /// The role of the destination before anything is copied.
    async fn first_role(&self) -> Result<Role, EngineError> {
        match self.options.merge {
            true => Ok(Role::MergingFrom),
            false => self.must_be_empty(true).await.map(|()| Role::FillingFrom),
        }
    }

    async fn must_be_empty(&self, may_merge: bool) -> Result<(), EngineError> {
        let to = &self.to;
        let any = Runs::of(to).next().await?.is_some()
            || TaskPages::of(to).next().await?.is_some()
            || LockPages::of(to).next().await?.is_some();
        match any {
            true => Err(CopyRefusal::NotEmpty { store: to.name.to_string(), may_merge }.into()),
            false => Ok(()),
        }
    }

    /// Marks the source. Removes the mark if it shows up in the destination: both are one store.
    async fn close_source(&self, ours: &Marked) -> Result<Marked, EngineError> {
        let from = &self.from;
        let mark = Mark {
            role: Role::CopyingTo,
            other: self.to.name.to_string(),
            copy: from.ledger.entropy.write_id().to_string(),
            since: from.ask("asking the time", || from.store().now()).await?,
        };
        let ours = self.put_mark(from, ours, Some(&mark)).await?;
        if Marked::of(&**self.to.store()).await?.mark.as_ref() == Some(&mark) {
            self.put_mark(from, &ours, None).await?;
            return Err(CopyRefusal::Same { store: self.to.name.to_string() }.into());
        }
        Ok(ours)
    }

    pub(super) async fn put_mark(
        &self,
        side: &Side,
        marked: &Marked,
        mark: Option<&Mark>,
    ) -> Result<Marked, EngineError> {
        let now = side.ask("asking the time", || side.store().now()).await?;
        let next = marked.next(mark, now);
        let expect = marked.lock.as_ref().map_or(Expect::Absent, |lock| Expect::Version(lock.version));
        let put = || side.store().put_lock(next.clone(), expect);
        match side.ask("marking a store", put).await? {
            Written::Lost(found) if found.as_ref() != Some(&next) => Err(self.overtaken()),
            _ => Ok(Marked { mark: mark.cloned(), lock: Some(next) }),
        }
    }

    fn overtaken(&self) -> EngineError {
        CopyRefusal::Overtaken { store: self.to.name.to_string() }.into()
    }

    /// Removes both marks if nothing has been copied.
    async fn give_up(&self, ours: &Marked, theirs: &Marked) -> Result<(), EngineError> {
        let fresh = Runs::of(&self.to).next().await?.is_none();
        if fresh {
            self.put_mark(&self.to, theirs, None).await?;
            self.put_mark(&self.from, ours, None).await?;
        }
        Ok(())
    }

    /// Checks that this copy still fills the destination.
    pub(super) async fn must_be_ours(&self, session: &Session) -> Result<(), EngineError> {
        let (Permit::Marks { theirs, .. } | Permit::Restore { theirs }) = &session.0.permit else {
            return Ok(());
        };
        let version = |marked: &Marked| marked.lock.as_ref().map(|lock: &Lock| lock.version);
        match version(&Marked::of(&**self.to.store()).await?) == version(theirs) {
            true => Ok(()),
            false => Err(self.overtaken()),
        }
    }

    /// Marks the source as moved, then opens the destination.
    pub(super) async fn hand_over(&self, session: &Session) -> Result<(), EngineError> {
        let (ours, theirs) = match &session.0.permit {
            Permit::Marks { ours, theirs } => (ours, theirs),
            Permit::Restore { theirs } => return self.open_restored(theirs).await,
            Permit::Dry | Permit::Over(_) | Permit::Backup { .. } => return Ok(()),
        };
        self.check_no_live_nodes().await?;
        let moved = ours.mark.clone().map(|mark| Mark { role: Role::MovedTo, ..mark });
        let filled = theirs.mark.clone().map(|mark| Mark { role: Role::FilledFrom, ..mark });
        self.put_mark(&self.from, ours, moved.as_ref()).await?;
        self.put_mark(&self.to, theirs, filled.as_ref()).await?;
        Ok(())
    }

    /// Refuses a finished copy if the destination has changed since.
    pub(super) fn must_not_be_over(session: &Session) -> Result<(), EngineError> {
        match &session.0.permit {
            Permit::Over(mark) => mark.closed().map_or(Ok(()), |closed| Err(StoreError::from(closed).into())),
            Permit::Dry | Permit::Marks { .. } | Permit::Backup { .. } | Permit::Restore { .. } => Ok(()),
        }
    }

    /// Begins a backup with this cut. Nothing is marked.
    pub(super) async fn begin_backup(&self, cut: Millis) -> Result<Session, EngineError> {
        self.session(cut, false, Permit::Backup { cut }).await
    }

    /// Begins or continues the restore of a backup: the destination is empty, has no live nodes, and is closed until
    /// the end.
    pub(super) async fn begin_restore(&self, backup: &str) -> Result<Session, EngineError> {
        let to = &self.to;
        self.check_no_live_nodes_of(to).await?;
        let theirs = Marked::of(&**to.store()).await?;
        let is_ours = |mark: &&Mark| mark.copy == backup && mark.role == Role::FillingFrom;
        let since = match theirs.mark.as_ref() {
            Some(mark) if is_ours(&mark) => mark.since,
            Some(mark) if !mark.role.is_open() => {
                let store = to.name.to_string();
                let words = mark.to_string();
                return Err(CopyRefusal::OtherCopy { store, words }.into());
            }
            _ => {
                self.must_be_empty(false).await?;
                to.ask("asking the time", || to.store().now()).await?
            }
        };
        let filling = Mark {
            role: Role::FillingFrom,
            other: self.from.name.to_string(),
            copy: backup.to_owned(),
            since,
        };
        let theirs = Box::new(self.put_mark(to, &theirs, Some(&filling)).await?);
        // After the mark: a node that joins now sees it.
        self.check_no_live_nodes_of(to).await?;
        self.session(since, false, Permit::Restore { theirs }).await
    }

    async fn open_restored(&self, theirs: &Marked) -> Result<(), EngineError> {
        self.check_no_live_nodes_of(&self.to).await?;
        let filled = theirs.mark.clone().map(|mark| Mark { role: Role::FilledFrom, ..mark });
        self.put_mark(&self.to, theirs, filled.as_ref()).await.map(drop)
    }

    async fn check_no_live_nodes(&self) -> Result<(), EngineError> {
        self.check_no_live_nodes_of(&self.from).await?;
        self.check_no_live_nodes_of(&self.to).await
    }

    async fn check_no_live_nodes_of(&self, side: &Side) -> Result<(), EngineError> {
        let nodes = live_nodes(side).await?;
        if nodes.is_empty() {
            return Ok(());
        }
        let nodes = nodes.iter().map(|seen| format!("node {} ({})", seen.record.id, seen.record.name));
        Err(CopyRefusal::InUse { store: side.name.to_string(), nodes: nodes.collect() }.into())
    }
}

/// Nodes that may be executing runs: all except those that are certainly gone, or silent for so long that they read
/// the mark before they begin anything.
async fn live_nodes(side: &Side) -> Result<Vec<NodeSeen>, EngineError> {
    let nodes = side.ask("listing nodes", || side.store().nodes()).await?;
    let now = side.ask("asking the time", || side.store().now()).await?;
    let least = SILENCE_MIN.max(side.store().pace().silence_max);
    let silence = |seen: &NodeSeen| seen.record.timing.map_or(least, |own| own.silence_max.max(least));
    let lives = |seen: &NodeSeen| match (seen.record.state, seen.pulse) {
        (NodeState::Left | NodeState::Gone, _) | (_, Pulse::Dropped) => false,
        (_, Pulse::Held) => true,
        (_, Pulse::Suspect | Pulse::Unknown) => now.since(seen.beat_at) < silence(seen),
    };
    Ok(nodes.into_iter().filter(lives).collect())
}

/// Opens a store that a copy closed. Returns its mark; none if it was open.
///
/// After a finished copy, both stores could then execute the runs that were active. Call it only if the other store
/// is not used.
pub async fn reopen(store: &dyn Store) -> Result<Option<Mark>, EngineError> {
    let marked = Marked::of(store).await?;
    let Some(mark) = marked.mark.clone().filter(|mark| !mark.role.is_open()) else { return Ok(None) };
    let now = retry::read(Retries::standard(), || store.now()).await?;
    let open = marked.next(None, now);
    let expect = marked.lock.as_ref().map_or(Expect::Absent, |lock| Expect::Version(lock.version));
    match retry::write(&open, Retries::standard(), |lock| store.put_lock(lock, expect)).await? {
        Written::Done => Ok(Some(mark)),
        Written::Lost(_) => Err(EngineError::Contended { doing: "reopening a store" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(role: Role, other: &str, copy: &str) -> Mark {
        Mark { role, other: other.to_owned(), copy: copy.to_owned(), since: Millis(1) }
    }

    fn state_of(ours: Option<Mark>, theirs: Option<Mark>) -> Result<CopyState, &'static str> {
        copy_state(ours.as_ref(), theirs.as_ref(), "there").map_err(|error| error.code())
    }

    #[test]
    fn copy_resumes_where_it_stopped() {
        let ours = mark(Role::CopyingTo, "there", "1");
        let moved = mark(Role::MovedTo, "there", "1");
        let theirs = |role| Some(mark(role, "here", "1"));
        assert_eq!(state_of(None, None), Ok(CopyState::Fresh));
        assert_eq!(state_of(Some(ours.clone()), None), Ok(CopyState::Closed));
        for role in [Role::FillingFrom, Role::MergingFrom] {
            for ours in [&ours, &moved] {
                let state = state_of(Some(ours.clone()), theirs(role));
                assert_eq!(state, Ok(CopyState::UnderWay(role)));
            }
        }
        assert_eq!(state_of(Some(moved.clone()), theirs(Role::FilledFrom)), Ok(CopyState::Over(moved)));
    }

    #[test]
    fn filled_store_can_be_copied_like_any_other() {
        let filled = || Some(mark(Role::FilledFrom, "elsewhere", "0"));
        assert_eq!(state_of(filled(), None), Ok(CopyState::Fresh));
        assert_eq!(state_of(None, filled()), Ok(CopyState::Fresh));
        let ours = mark(Role::CopyingTo, "there", "1");
        assert_eq!(state_of(Some(ours), filled()), Ok(CopyState::Closed));
    }

    #[test]
    fn store_takes_part_in_one_copy_at_a_time() {
        for role in [Role::CopyingTo, Role::MovedTo, Role::FillingFrom, Role::MergingFrom] {
            let theirs = || Some(mark(role, "elsewhere", "2"));
            assert_eq!(state_of(None, theirs()), Err("GS0402"), "{role:?}");
            assert_eq!(state_of(Some(mark(Role::CopyingTo, "there", "1")), theirs()), Err("GS0402"));
            assert_eq!(state_of(theirs(), None), Err("GS0404"), "{role:?}");
        }
        let elsewhere = mark(Role::CopyingTo, "elsewhere", "1");
        assert_eq!(state_of(Some(elsewhere.clone()), None), Err("GS0404"));
        assert_eq!(state_of(Some(elsewhere.clone()), Some(elsewhere)), Err("GS0402"), "both are one");
    }
}
