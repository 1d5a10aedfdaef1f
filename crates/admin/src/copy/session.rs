//! The begin and the end of a copy: nobody lives in either store, and both say what they take part in.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::lock::Lock;
use goldseam_store::{Expect, NodeSeen, NodeState, Pulse, Store, StoreError, Written};

use super::Copier;
use super::report::CopyFinding;
use super::side::{Locks, Pages, Runs, Side, Tasks};
use goldseam_engine::is_node_name;
use goldseam_engine::ledger::copy_mark::{Mark, Marked, Role};
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::refusal::CopyRefusal;
use goldseam_engine::ledger::retry::{self, Retries};

/// A node whose lock is not held counts as gone after so much silence: by then it is long unsure of itself.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// Where a copy is, by what both stores say.
#[derive(Debug, PartialEq, Eq)]
enum Stand {
    /// Nothing has begun.
    Fresh,
    /// The source is closed for this copy; the destination does not know of it yet.
    Closed,
    /// Both know of it; the destination has this role.
    UnderWay(Role),
    /// It was finished.
    Over(Mark),
}

fn stand(ours: Option<&Mark>, theirs: Option<&Mark>, to: &str) -> Result<Stand, EngineError> {
    let same = |mark: &&Mark| theirs.is_some_and(|theirs| theirs.copy == mark.copy);
    let other = |theirs: &Mark| CopyRefusal::OtherCopy { store: to.to_owned(), words: theirs.to_string() };
    match (ours.filter(|ours| !ours.role.is_open()), theirs) {
        // One record that says the same of both.
        (Some(ours), Some(theirs)) if ours == theirs => {
            Err(CopyRefusal::Same { store: to.to_owned() }.into())
        }
        (None, Some(theirs)) if !theirs.role.is_open() => Err(other(theirs).into()),
        (None, _) => Ok(Stand::Fresh),
        (Some(ours), Some(theirs)) if same(&ours) && theirs.role.is_filling() => {
            Ok(Stand::UnderWay(theirs.role))
        }
        (Some(ours), Some(_)) if same(&ours) && ours.role == Role::MovedTo => Ok(Stand::Over(ours.clone())),
        (Some(ours), theirs) if ours.role == Role::CopyingTo && ours.other == to => match theirs {
            Some(theirs) if !theirs.role.is_open() => Err(other(theirs).into()),
            _ => Ok(Stand::Closed),
        },
        (Some(ours), _) => match ours.closed() {
            Some(closed) => Err(StoreError::from(closed).into()),
            None => Ok(Stand::Fresh),
        },
    }
}

/// What a copy goes by. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Session(Arc<Terms>);

#[derive(Debug)]
struct Terms {
    /// Nodes that the source knows.
    nodes: HashSet<String>,
    /// When the copy began, by the source's clock: the same however often it is begun again.
    at: Millis,
    merges: bool,
    hold: Hold,
}

/// What allows a copy to write.
#[derive(Debug)]
enum Hold {
    /// Nothing: it only looks.
    Dry,
    /// The same, because it was finished before.
    Over(Mark),
    /// The marks of both stores.
    Marks { ours: Box<Marked>, theirs: Box<Marked> },
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
        matches!(self.0.hold, Hold::Dry | Hold::Over(_))
    }
}

impl Copier {
    /// Sees to it that nobody lives in either store, and closes both.
    pub(super) async fn begin(&self) -> Result<Session, EngineError> {
        self.nobody_lives().await?;
        let (ours, theirs) = self.marks().await?;
        let (ours, role) = match stand(ours.mark.as_ref(), theirs.mark.as_ref(), &self.to.name)? {
            Stand::Over(mark) => return self.session(mark.since, false, Hold::Over(mark)).await,
            Stand::UnderWay(role) => (ours, role),
            Stand::Closed => (ours, self.first_role().await?),
            Stand::Fresh => {
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
        // After the marks: whoever joins from now on sees them.
        if let Err(alive) = self.nobody_lives().await {
            self.give_up(&ours, &theirs).await?;
            return Err(alive);
        }
        let merges = role == Role::MergingFrom;
        let (ours, theirs) = (Box::new(ours), Box::new(theirs));
        self.session(mark.since, merges, Hold::Marks { ours, theirs }).await
    }

    /// The same for somebody who only looks: why a copy would be refused is told, and does not end it.
    pub(super) async fn foresee(&self) -> Result<(Session, Option<CopyFinding>), EngineError> {
        let refused = match self.nobody_lives().await.and(self.may_begin().await) {
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
        Ok((self.session(at, merges, Hold::Dry).await?, refused))
    }

    async fn may_begin(&self) -> Result<(), EngineError> {
        let (ours, theirs) = self.marks().await?;
        match stand(ours.mark.as_ref(), theirs.mark.as_ref(), &self.to.name)? {
            Stand::Fresh | Stand::Closed => self.first_role().await.map(drop),
            Stand::UnderWay(..) | Stand::Over(_) => Ok(()),
        }
    }

    async fn session(&self, at: Millis, merges: bool, hold: Hold) -> Result<Session, EngineError> {
        let nodes = self.from.ask("listing nodes", || self.from.store().nodes()).await?;
        let nodes = nodes.iter().map(|seen| seen.record.id.as_str().to_owned()).collect();
        Ok(Session(Arc::new(Terms { nodes, at, merges, hold })))
    }

    async fn marks(&self) -> Result<(Marked, Marked), EngineError> {
        Ok((Marked::of(&**self.from.store()).await?, Marked::of(&**self.to.store()).await?))
    }

    /// What the destination is to be, as long as this copy has brought nothing.
    async fn first_role(&self) -> Result<Role, EngineError> {
        match self.options.merge {
            true => Ok(Role::MergingFrom),
            false => self.must_be_empty().await.map(|()| Role::FillingFrom),
        }
    }

    async fn must_be_empty(&self) -> Result<(), EngineError> {
        let to = &self.to;
        let any = Runs::of(to).next().await?.is_some()
            || Tasks::of(to).next().await?.is_some()
            || Locks::of(to).next().await?.is_some();
        match any {
            true => Err(CopyRefusal::NotEmpty { store: to.name.to_string() }.into()),
            false => Ok(()),
        }
    }

    /// Marks the source; undone if the mark shows up in the destination, too.
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

    async fn put_mark(
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

    /// A copy that has brought nothing leaves nothing closed.
    async fn give_up(&self, ours: &Marked, theirs: &Marked) -> Result<(), EngineError> {
        let fresh = Runs::of(&self.to).next().await?.is_none();
        if fresh {
            self.put_mark(&self.to, theirs, None).await?;
            self.put_mark(&self.from, ours, None).await?;
        }
        Ok(())
    }

    /// Whether this is still the copy that fills the destination.
    pub(super) async fn must_be_ours(&self, session: &Session) -> Result<(), EngineError> {
        let Hold::Marks { theirs, .. } = &session.0.hold else { return Ok(()) };
        let version = |marked: &Marked| marked.lock.as_ref().map(|lock: &Lock| lock.version);
        match version(&Marked::of(&**self.to.store()).await?) == version(theirs) {
            true => Ok(()),
            false => Err(self.overtaken()),
        }
    }

    /// The source says where its runs went; then the destination is open.
    pub(super) async fn hand_over(&self, session: &Session) -> Result<(), EngineError> {
        let (ours, theirs) = match &session.0.hold {
            Hold::Marks { ours, theirs } => (ours, theirs),
            Hold::Dry | Hold::Over(_) => return Ok(()),
        };
        self.nobody_lives().await?;
        let moved = ours.mark.clone().map(|mark| Mark { role: Role::MovedTo, ..mark });
        let filled = theirs.mark.clone().map(|mark| Mark { role: Role::FilledFrom, ..mark });
        self.put_mark(&self.from, ours, moved.as_ref()).await?;
        self.put_mark(&self.to, theirs, filled.as_ref()).await?;
        Ok(())
    }

    /// Refuses a copy that was finished before, once the destination has gone on.
    pub(super) fn must_not_be_over(session: &Session) -> Result<(), EngineError> {
        match &session.0.hold {
            Hold::Over(mark) => mark.closed().map_or(Ok(()), |closed| Err(StoreError::from(closed).into())),
            Hold::Dry | Hold::Marks { .. } => Ok(()),
        }
    }

    async fn nobody_lives(&self) -> Result<(), EngineError> {
        for side in [&self.from, &self.to] {
            let nodes = living(side).await?;
            if !nodes.is_empty() {
                let nodes =
                    nodes.iter().map(|seen| format!("node {} ({})", seen.record.id, seen.record.name));
                let store = side.name.to_string();
                return Err(CopyRefusal::InUse { store, nodes: nodes.collect() }.into());
            }
        }
        Ok(())
    }
}

/// Nodes that may be executing runs: all but those that are over for certain, or have been silent for so long that they
/// look at the mark before they begin anything.
async fn living(side: &Side) -> Result<Vec<NodeSeen>, EngineError> {
    let nodes = side.ask("listing nodes", || side.store().nodes()).await?;
    let now = side.ask("asking the time", || side.store().now()).await?;
    let silence = SILENCE_MIN.max(side.store().pace().silence_max);
    let lives = |seen: &NodeSeen| match (seen.record.state, seen.pulse) {
        (NodeState::Left | NodeState::Gone, _) | (_, Pulse::Dropped) => false,
        (_, Pulse::Held) => true,
        (_, Pulse::Suspect | Pulse::Unknown) => now.since(seen.beat_at) < silence,
    };
    Ok(nodes.into_iter().filter(lives).collect())
}

/// Opens a store that a copy closed. Returns what it said; none if it was open.
///
/// After a copy was finished this lets both stores execute the runs that were in flight: only for somebody who knows
/// that the other one is not used.
pub async fn reopen(store: &dyn Store) -> Result<Option<Mark>, EngineError> {
    let marked = Marked::of(store).await?;
    let Some(mark) = marked.mark.clone().filter(|mark| !mark.role.is_open()) else { return Ok(None) };
    let now = retry::read(Retries::standard(), || store.now()).await?;
    let open = marked.next(None, now);
    let expect = marked.lock.as_ref().map_or(Expect::Absent, |lock| Expect::Version(lock.version));
    match retry::write(&open, Retries::standard(), |lock| store.put_lock(lock, expect)).await? {
        Written::Done => Ok(Some(mark)),
        Written::Lost(_) => Err(EngineError::Patience { doing: "reopening a store", seconds: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(role: Role, other: &str, copy: &str) -> Mark {
        Mark { role, other: other.to_owned(), copy: copy.to_owned(), since: Millis(1) }
    }

    fn stands(ours: Option<Mark>, theirs: Option<Mark>) -> Result<Stand, &'static str> {
        stand(ours.as_ref(), theirs.as_ref(), "there").map_err(|error| error.code())
    }

    #[test]
    fn a_copy_goes_on_where_it_was() {
        let ours = mark(Role::CopyingTo, "there", "1");
        let moved = mark(Role::MovedTo, "there", "1");
        let theirs = |role| Some(mark(role, "here", "1"));
        assert_eq!(stands(None, None), Ok(Stand::Fresh));
        assert_eq!(stands(Some(ours.clone()), None), Ok(Stand::Closed));
        for role in [Role::FillingFrom, Role::MergingFrom] {
            for ours in [&ours, &moved] {
                let stands = stands(Some(ours.clone()), theirs(role));
                assert_eq!(stands, Ok(Stand::UnderWay(role)));
            }
        }
        assert_eq!(stands(Some(moved.clone()), theirs(Role::FilledFrom)), Ok(Stand::Over(moved)));
    }

    #[test]
    fn a_store_that_was_filled_is_as_good_as_any() {
        let filled = || Some(mark(Role::FilledFrom, "elsewhere", "0"));
        assert_eq!(stands(filled(), None), Ok(Stand::Fresh));
        assert_eq!(stands(None, filled()), Ok(Stand::Fresh));
        let ours = mark(Role::CopyingTo, "there", "1");
        assert_eq!(stands(Some(ours), filled()), Ok(Stand::Closed));
    }

    #[test]
    fn a_store_takes_part_in_one_copy_at_a_time() {
        for role in [Role::CopyingTo, Role::MovedTo, Role::FillingFrom, Role::MergingFrom] {
            let theirs = || Some(mark(role, "elsewhere", "2"));
            assert_eq!(stands(None, theirs()), Err("GS0402"), "{role:?}");
            assert_eq!(stands(Some(mark(Role::CopyingTo, "there", "1")), theirs()), Err("GS0402"));
            assert_eq!(stands(theirs(), None), Err("GS0404"), "{role:?}");
        }
        let elsewhere = mark(Role::CopyingTo, "elsewhere", "1");
        assert_eq!(stands(Some(elsewhere.clone()), None), Err("GS0404"));
        assert_eq!(stands(Some(elsewhere.clone()), Some(elsewhere)), Err("GS0402"), "both are one");
    }
}
