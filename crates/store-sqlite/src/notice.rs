//! Write notices from the operating system, so that an idle database is not polled.
//!
//! A notice arrives when bytes reach the write-ahead log, a moment before the commit becomes readable. It is a reason
//! to poll for a while, not a proof of a commit. Without notices (on systems other than Linux, or if the process has
//! used up its inotify instances) the database is polled at a fixed rate.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::files::beside;

/// The write notices of one open database.
#[derive(Debug)]
pub(crate) struct Notices {
    written: Arc<Notify>,
    _files: Vec<system::WatchedFile>,
}

impl Notices {
    /// Subscribes to writes of a database that was just opened; none if the system offers no notices.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let written = Arc::new(Notify::new());
        let files = [path.to_owned(), beside(path, "-wal")];
        let watched: Option<Vec<_>> = files.iter().map(|file| system::watch(file, &written)).collect();
        Some(Self { written, _files: watched? })
    }

    /// Returns once the database was written since the last return, by this process or another.
    pub(crate) async fn next(&self) {
        self.written.notified().await;
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashMap;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
    use std::time::Duration;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use tokio::sync::Notify;

    /// Pause between two reads: under load the kernel merges equal notices meanwhile.
    const READ_PAUSE: Duration = Duration::from_millis(10);

    /// One instance for all databases of this process: the kernel allows a user few of them.
    static INSTANCE: OnceLock<Option<Instance>> = OnceLock::new();

    /// Subscribers by watch descriptor.
    type Subscribers = HashMap<i32, Vec<Arc<Notify>>>;

    #[derive(Debug)]
    struct Instance {
        fd: OwnedFd,
        subscribers: Mutex<Subscribers>,
    }

    /// A file that is watched until this value is dropped.
    #[derive(Debug)]
    pub(super) struct WatchedFile {
        descriptor: i32,
        written: Arc<Notify>,
    }

    /// Notifies `written` of each write to a file, and of its removal.
    pub(super) fn watch(file: &Path, written: &Arc<Notify>) -> Option<WatchedFile> {
        let instance = INSTANCE.get_or_init(Instance::open).as_ref()?;
        let mask = WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        // Locked first, so that the reader cannot drop a notice that comes before the subscriber is listed.
        let mut subscribers = instance.subscribers();
        let descriptor = inotify::add_watch(&instance.fd, file, mask).ok()?;
        subscribers.entry(descriptor).or_default().push(Arc::clone(written));
        Some(WatchedFile { descriptor, written: Arc::clone(written) })
    }

    impl Drop for WatchedFile {
        fn drop(&mut self) {
            let Some(instance) = INSTANCE.get().and_then(Option::as_ref) else { return };
            let mut subscribers = instance.subscribers();
            let Some(of_file) = subscribers.get_mut(&self.descriptor) else { return };
            of_file.retain(|one| !Arc::ptr_eq(one, &self.written));
            if of_file.is_empty() {
                subscribers.remove(&self.descriptor);
                // Fails if the file was removed: the kernel has dropped its watch already.
                let _ = inotify::remove_watch(&instance.fd, self.descriptor);
            }
        }
    }

    impl Instance {
        fn open() -> Option<Self> {
            let fd = inotify::init(CreateFlags::CLOEXEC).ok()?;
            let reader = std::thread::Builder::new().name("goldseam-notice".to_owned());
            reader.spawn(|| INSTANCE.wait().as_ref().map(Instance::read)).ok()?;
            Some(Self { fd, subscribers: Mutex::default() })
        }

        fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
            self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Passes notices on until the process ends.
        fn read(&self) {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut notices = Reader::new(&self.fd, &mut buffer);
            loop {
                match notices.next() {
                    Ok(notice) if !notice.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                        let descriptor = notice.wd();
                        let subscribers = self.subscribers();
                        subscribers.get(&descriptor).into_iter().flatten().for_each(|one| one.notify_one());
                    }
                    Err(Errno::INTR) => {}
                    // Notices were lost: any file may have been written.
                    Ok(_) | Err(_) => self.subscribers().values().flatten().for_each(|one| one.notify_one()),
                }
                if notices.is_buffer_empty() {
                    std::thread::park_timeout(READ_PAUSE);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;
    use std::sync::Arc;

    use tokio::sync::Notify;

    /// A watched file; this system has none.
    pub(super) use std::convert::Infallible as WatchedFile;

    pub(super) fn watch(_: &Path, _: &Arc<Notify>) -> Option<WatchedFile> {
        None
    }
}
