//! [`PostgresStore`]: the trait's calls, each handed to a writer or to a link.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, Claim, ClaimedTasks, Expect, Feed, Head, LockFilter, NodeRecord, NodeSeen, Page, Record,
    RecordKind, Row, RunFilter, Store, StoreError, TaskFilter, Unreadable, Written,
};
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use crate::append::{self, Appends, Prepared};
use crate::clock::{Moment, StoreClock};
use crate::connection::{Link, Target};
use crate::fault::Fault;
use crate::liveness::{Live, pulse_key};
use crate::nodes::{self, Beat, Me};
use crate::open::{self, Older};
use crate::tasks::{Put, Puts};
use crate::url::{self, Options};
use crate::watch::Watch;
use crate::writer::Writer;
use crate::{claim, list, locks, read, rows, tasks};

/// Connections for appends: while one group is committed, the next one is on its way.
const APPEND_LINKS: usize = 2;
/// Connections for reads.
const READ_LINKS: usize = 2;

/// A store in one schema of a Postgres database. Share it in an `Arc`.
///
/// At most six connections: two for appends, one for other writes, two for reads, and the liveness session.
#[derive(Debug)]
pub struct PostgresStore {
    target: Arc<Target>,
    me: Arc<Me>,
    appends: Writer<Appends>,
    puts: Writer<Puts>,
    write: Arc<Link>,
    read: [Link; READ_LINKS],
    /// Counts reads, so that they take turns.
    turn: AtomicUsize,
    live: Mutex<Option<Arc<Live>>>,
}

impl PostgresStore {
    /// Opens a schema, makes it if there is none, and brings it up to date.
    pub async fn open(options: Options) -> Result<Self, StoreError> {
        Self::open_with(options, Older::Migrate).await
    }

    /// The same, but a schema that is older or not there is refused, untouched.
    pub async fn open_current(options: Options) -> Result<Self, StoreError> {
        Self::open_with(options, Older::Refuse).await
    }

    /// Opens what a URL names: `postgres://USER@HOST/DATABASE?schema=NAME`.
    pub async fn open_url(text: &str) -> Result<Self, StoreError> {
        Self::open(url::parse(text)?).await
    }

    async fn open_with(options: Options, older: Older) -> Result<Self, StoreError> {
        let target = Arc::new(Target::new(options)?);
        open::ready(&target, older).await?;
        let options = &target.options;
        let home = Handle::current();
        let link = || Link::new(Arc::clone(&target), home.clone());
        let clock = StoreClock::new(options.clock.clone());
        let me = Arc::new(Me::new(clock, Arc::new(Watch::new()), options.schema.clone()));
        let write = Arc::new(link());
        let appends = (0..APPEND_LINKS).map(|_| Arc::new(link())).collect();
        let store = Self {
            appends: Writer::new(Appends(Arc::clone(&me)), appends, options.group_max, home.clone()),
            puts: Writer::new(
                Puts(Arc::clone(&me)),
                vec![Arc::clone(&write)],
                options.group_max,
                home.clone(),
            ),
            read: std::array::from_fn(|_| link()),
            turn: AtomicUsize::new(0),
            live: Mutex::default(),
            write,
            me,
            target: Arc::clone(&target),
        };
        store.set_clock().await?;
        Ok(store)
    }

    /// Nothing may be told the time before the database was asked for it.
    async fn set_clock(&self) -> Result<(), StoreError> {
        let sent = Moment::now();
        let rows = self.reader().read("SELECT goldseam.clock()", &[]).await?;
        if let Some(row) = rows.first() {
            let told = read::column(row, 0).map_err(|fault| fault.to_read_error())?;
            self.me.clock.heard(told, sent);
        }
        Ok(())
    }

    pub(crate) fn reader(&self) -> &Link {
        &self.read[self.turn.fetch_add(1, Ordering::Relaxed) % READ_LINKS]
    }

    /// The liveness session, if there is one already.
    fn live(&self) -> Option<Arc<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The liveness session, begun if need be; none where there can be none.
    fn begin_live(&self) -> Result<Option<Arc<Live>>, StoreError> {
        if !self.target.options.has_sessions() {
            return Ok(None);
        }
        let mut place = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            let started = Live::start(Arc::clone(&self.target), Arc::clone(&self.me.watch));
            let failed = |error: std::io::Error| {
                let what = format!("cannot start the thread of the liveness session: {error}");
                open::refused("GS0205", what, "raise this user's limit of threads")
            };
            *place = Some(Arc::new(started.map_err(failed)?));
        }
        Ok(place.clone())
    }

    async fn beat_on(&self, live: Option<&Live>, beat: Beat) -> Result<i64, Fault> {
        let Some(live) = live else {
            return Beat::answer(&self.write.query(nodes::BEAT, &beat.values()).await?);
        };
        let sql = self.target.sql(nodes::BEAT).into_owned();
        live.on_session(
            move |session| async move { Beat::answer(&session.query(&sql, &beat.values()).await?) },
        )
        .await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        self.appends.write(Prepared::new(append, self.me.clock.now())?).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        read::records(self.reader(), run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        read::head(self.reader(), run).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        append::trim(&self.write, run, first).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.puts.write(Put::new(&task, expect, self.me.clock.now())?).await
    }

    async fn claim(&self, claim: Claim) -> Result<ClaimedTasks, StoreError> {
        claim::claim(&self.write, &claim).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        tasks::list(self.reader(), &filter).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        let written = locks::put(&self.write, &lock, expect).await?;
        if matches!(written, Written::Done) {
            self.me.watch.bump();
        }
        Ok(written)
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        locks::list(self.reader(), &filter).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let written = rows::put(&self.write, row, expect, self.me.clock.now()).await?;
        if matches!(written, Written::Done) {
            self.me.watch.bump();
        }
        Ok(written)
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        list::runs(self.reader(), &filter, after.as_ref()).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        let (link, after) = (self.reader(), after.unwrap_or_default());
        let number = after.parse().unwrap_or(0);
        match kind {
            RecordKind::Row => list::unreadable(link, number, limit).await,
            RecordKind::Task => tasks::unreadable(link, after, limit).await,
            RecordKind::Lock => locks::unreadable(link, after, limit).await,
            RecordKind::Node => nodes::unreadable(link).await,
            RecordKind::Index => Ok(Page::default()),
        }
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        list::rowless(self.reader(), after, limit).await
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let sent = Moment::now();
        let over = nodes::is_over(node);
        let live = if over { self.live() } else { self.begin_live()? };
        let key = pulse_key(&self.target.options.schema, &node.id);
        if over {
            self.me.left(&node.id);
            live.as_ref().and_then(|live| live.let_go(&node.id));
        } else {
            self.me.joined(&node.id);
            live.iter().for_each(|live| live.hold(&node.id, key));
        }
        let pulse = self.target.options.has_sessions().then_some(key);
        let beat = Beat::new(self.me.clock.given(), pulse, node)?;
        let told = self.beat_on(live.as_deref(), beat).await.map_err(|fault| fault.to_error("beating"))?;
        Ok(self.me.clock.heard(told, sent))
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        nodes::list(self.reader(), self.live().is_none_or(|live| live.is_settled())).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.me.left(node);
        let failed = |fault: Fault| fault.to_error("forgetting a node");
        self.write.query(nodes::FORGET, &[(&node.as_str() as _, Type::TEXT)]).await.map_err(failed)?;
        if let Some(live) = self.live()
            && let Some(key) = live.let_go(node)
            && let Err(fault) = live.unlock(key).await
        {
            tracing::debug!(?fault, %node, "failed to unlock a forgotten node; its lock ends with the session");
        }
        Ok(())
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        Ok(self.me.watch.changed(seen, self.me.has_nodes() && self.target.options.has_sessions()).await)
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.me.clock.now())
    }
}
