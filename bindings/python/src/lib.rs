//! `goldseam._native`: the embedded engine for Python.
//!
//! No thread of the engine ever runs Python code or waits for the interpreter. A response is queued here, and one byte
//! in a socket wakes the event loop, which drains the queue. So nothing is called after the loop or the interpreter has
//! ended, and a busy interpreter does not delay the engine.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_api::Problem;
use goldseam_embed::{ApiCall, ApiReply, EmbedSettings, Embedded, EventStream};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Responses that wait for the event loop, each with the number of its request.
#[derive(Debug)]
struct Finished {
    replies: Mutex<Vec<(u64, ApiReply)>>,
    wake: UnixStream,
}

impl Finished {
    fn add(&self, number: u64, reply: ApiReply) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.push((number, reply));
        if replies.len() == 1 {
            // A full socket has a byte that wakes the loop already.
            let _ = (&self.wake).write(&[1]);
        }
    }
}

/// A queue of responses, for one event loop.
#[pyclass(frozen)]
#[derive(Debug)]
struct Mailbox {
    finished: Arc<Finished>,
    woken: UnixStream,
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self { finished: Arc::new(Finished { replies: Mutex::default(), wake }), woken })
    }

    /// The descriptor that becomes readable when a response has arrived.
    fn fileno(&self) -> i32 {
        self.woken.as_raw_fd()
    }

    /// Takes all responses: `(number, status, body)`.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u64, u16, Bound<'py, PyBytes>)>> {
        let mut bytes = [0; 64];
        loop {
            match (&self.woken).read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let replies =
            std::mem::take(&mut *self.finished.replies.lock().unwrap_or_else(PoisonError::into_inner));
        let listed = |(number, reply): (u64, ApiReply)| (number, reply.status, PyBytes::new(py, &reply.body));
        Ok(replies.into_iter().map(listed).collect())
    }
}

/// An engine in this process.
#[pyclass(frozen)]
#[derive(Debug)]
struct Engine {
    embedded: Arc<Embedded>,
}

/// Raises a problem as an error whose text is its document; the SDK reads it.
fn raised(problem: &Problem) -> PyErr {
    PyRuntimeError::new_err(serde_json::to_string(problem).unwrap_or_else(|_| problem.detail.clone()))
}

fn call(method: &str, path: &str, headers: Vec<(String, String)>, body: Option<&[u8]>) -> ApiCall {
    ApiCall {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body: body.map(|body| body.to_vec().into()),
    }
}

#[pymethods]
impl Engine {
    /// Opens a store and starts an engine on it.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        url: &str,
        settings: BTreeMap<String, String>,
        threads: usize,
        virtual_time: bool,
    ) -> PyResult<Self> {
        let settings = EmbedSettings { values: settings, threads, virtual_time };
        let opened = py.detach(|| Embedded::open(url, &settings));
        Ok(Self { embedded: Arc::new(opened.map_err(|problem| raised(&problem))?) })
    }

    /// Sends a request and waits for the response: `(status, headers, body)`.
    #[expect(clippy::type_complexity, clippy::too_many_arguments, reason = "the signature of Python")]
    fn request<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        body: Option<&[u8]>,
    ) -> PyResult<(u16, Vec<(String, String)>, Bound<'py, PyBytes>)> {
        let call = call(method, path, headers, body);
        let reply = py.detach(|| self.embedded.request(call)).map_err(|problem| raised(&problem))?;
        Ok((reply.status, reply.headers, PyBytes::new(py, &reply.body)))
    }

    /// Sends a request and returns at once; the response arrives in the mailbox under `number`.
    #[expect(clippy::too_many_arguments, reason = "the signature of Python")]
    fn submit(
        &self,
        mailbox: &Mailbox,
        number: u64,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        body: Option<&[u8]>,
    ) -> PyResult<()> {
        let finished = Arc::clone(&mailbox.finished);
        let sent =
            self.embedded.submit(call(method, path, headers, body), move |reply| finished.add(number, reply));
        sent.map_err(|problem| raised(&problem))
    }

    /// Begins a request in this thread. Returns `(status, body)` if the response is there already; otherwise it arrives
    /// in the mailbox under `number`.
    #[expect(clippy::too_many_arguments, reason = "the signature of Python")]
    fn begin<'py>(
        &self,
        py: Python<'py>,
        mailbox: &Mailbox,
        number: u64,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> PyResult<Option<(u16, Bound<'py, PyBytes>)>> {
        let finished = Arc::clone(&mailbox.finished);
        let call = call(method, path, Vec::new(), body);
        let begun = py.detach(|| self.embedded.begin(call, move |reply| finished.add(number, reply)));
        let reply = begun.map_err(|problem| raised(&problem))?;
        Ok(reply.map(|reply| (reply.status, PyBytes::new(py, &reply.body))))
    }

    /// Opens a stream of server-sent events.
    fn stream(&self, py: Python<'_>, path: &str, last_event_id: Option<&str>) -> PyResult<Events> {
        let opened = py.detach(|| self.embedded.stream(path, last_event_id));
        Ok(Events { stream: opened.map_err(|problem| raised(&problem))? })
    }

    /// Moves virtual time forward.
    fn advance(&self, milliseconds: u64) -> PyResult<()> {
        self.embedded.advance(Duration::from_millis(milliseconds)).map_err(|problem| raised(&problem))
    }

    /// Ends a worker like a crash of its process, for tests.
    fn crash_worker(&self, py: Python<'_>, worker: &str) -> PyResult<()> {
        py.detach(|| self.embedded.crash_worker(worker)).map_err(|problem| raised(&problem))
    }

    /// Closes the engine; workers release their runs.
    fn close(&self, py: Python<'_>, drain_ms: u64) {
        py.detach(|| self.embedded.close(Duration::from_millis(drain_ms)));
    }

    /// Ends the engine like a crash.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.embedded.abandon());
    }
}

/// A stream of server-sent events.
#[pyclass(frozen)]
#[derive(Debug)]
struct Events {
    stream: EventStream,
}

#[pymethods]
impl Events {
    /// Waits for the next piece; empty after the timeout, `None` at the end of the stream.
    fn next<'py>(&self, py: Python<'py>, timeout_ms: u64) -> Option<Bound<'py, PyBytes>> {
        match py.detach(|| self.stream.next(Duration::from_millis(timeout_ms))) {
            Ok(piece) => Some(PyBytes::new(py, &piece.unwrap_or_default())),
            Err(_) => None,
        }
    }

    /// Ends the stream.
    fn close(&self) {
        self.stream.close();
    }
}

/// Returns the page of an error code or of a rule, as Markdown.
#[pyfunction]
fn explain(code: &str) -> Option<&'static str> {
    goldseam_api::codes::page(code)
}

/// The engine for Python.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Engine, Events, Mailbox, explain};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::prelude::*;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
