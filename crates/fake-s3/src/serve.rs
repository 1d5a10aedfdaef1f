//! The server: applies faults to requests and responds.

use std::convert::Infallible;
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::{Notify, oneshot};

use crate::answer::RequestOutcome;
use crate::fake::{BUCKET, Conditions, FakeState};
use crate::fault::{ErrorReply, FaultReply, RequestFault};
use crate::request::{Precondition, RequestKind, S3Request};

/// How long a racy server waits between check and write for a second writer of the same key.
const RACE: Duration = Duration::from_millis(300);

/// Accepts connections until the sender of `ended` is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<FakeState>,
    ended: oneshot::Receiver<Infallible>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let accept = async {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            // Send small responses at once.
            let _ = stream.set_nodelay(true);
            let shared = shared.clone();
            let service = service_fn(move |request| answer(shared.clone(), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // The connection ends with its client, or with the runtime.
            tokio::spawn(connection);
        }
    };
    tokio::select! {
        () = accept => {}
        _ = ended => {}
    }
}

/// The connection is closed without a response.
#[derive(Debug)]
struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was dropped")
    }
}

impl std::error::Error for Dropped {}

async fn answer(
    shared: Arc<FakeState>,
    request: HttpRequest<Incoming>,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let request = match S3Request::read(request).await {
        Ok(request) => request,
        Err(refusal) => return Ok(RequestOutcome::Refused(refusal).into_response(None, shared.now())),
    };
    let (request, fault) = shared.arrived(request);
    // In a separate task: a request of a client that gave up is still done.
    tokio::spawn(process(shared, request, fault)).await.unwrap_or(Err(Dropped))
}

async fn process(
    shared: Arc<FakeState>,
    request: S3Request,
    fault: Option<RequestFault>,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let Some(fault) = fault else { return lost(&shared).await };
    fault.before.over().await;
    let mut outcome = None;
    for _ in 0..fault.times {
        outcome = Some(perform(&shared, &request).await);
    }
    fault.after.over().await;
    if shared.is_cut_off() {
        return lost(&shared).await;
    }
    let outcome = match (fault.answer, outcome) {
        (FaultReply::Own, Some(outcome)) => outcome,
        (FaultReply::Refused(refusal), _) => RequestOutcome::Refused(refusal),
        (FaultReply::Missing, _) => std::future::pending().await,
        (FaultReply::Dropped | FaultReply::Own, _) => return Err(Dropped),
    };
    let response = outcome.into_response(Some(&request), shared.now());
    shared.answered(&request, response.status().as_u16());
    Ok(response)
}

/// Waits until the network is repaired, and then drops the connection.
async fn lost(shared: &FakeState) -> Result<Response<Full<Bytes>>, Dropped> {
    shared.healed().await;
    Err(Dropped)
}

async fn perform(shared: &FakeState, request: &S3Request) -> RequestOutcome {
    let outcome = if request.bucket != BUCKET {
        Err(ErrorReply::new(404, "NoSuchBucket"))
    } else if request.op.is_write() && shared.modes().read_only {
        match (ErrorReply::new(403, "AccessDenied"), request.op) {
            // Each key has its own error.
            (refusal, RequestKind::DeleteMany) => Ok(RequestOutcome::KeptMany(request.keys(), refusal)),
            (refusal, _) => Err(refusal),
        }
    } else {
        match request.op {
            RequestKind::Put => written(shared, request).await,
            RequestKind::Delete | RequestKind::DeleteMany => Ok(deleted(shared, request)),
            RequestKind::Get | RequestKind::Head => read(shared, request),
            RequestKind::List => Ok(listed(shared, request)),
        }
    };
    outcome.unwrap_or_else(RequestOutcome::Refused)
}

async fn written(shared: &FakeState, request: &S3Request) -> Result<RequestOutcome, ErrorReply> {
    let mut condition = request.condition.as_ref();
    match shared.modes().conditions {
        Conditions::Kept => {}
        Conditions::Ignored => condition = None,
        Conditions::Racy => {
            shared.objects().check(&request.key, condition)?;
            if condition.take().is_some() {
                wait_for_rival(shared, &request.key).await;
            }
        }
    }
    let now = shared.now();
    let mut objects = shared.objects();
    objects.check(&request.key, condition)?;
    Ok(RequestOutcome::Written(objects.put(&request.key, request.body.clone(), now)))
}

/// Waits for a second writer of the same key, at most [`RACE`].
async fn wait_for_rival(shared: &FakeState, key: &str) {
    let rival = shared.races().remove(key);
    if let Some(rival) = rival {
        rival.notify_one();
        return;
    }
    let met = Arc::new(Notify::new());
    shared.races().insert(key.to_owned(), met.clone());
    if tokio::time::timeout(RACE, met.notified()).await.is_err() {
        shared.races().remove(key);
    }
}

fn deleted(shared: &FakeState, request: &S3Request) -> RequestOutcome {
    let mut objects = shared.objects();
    if request.op == RequestKind::Delete {
        objects.delete(&request.key);
        return RequestOutcome::Deleted;
    }
    let keys = request.keys();
    for key in &keys {
        objects.delete(key);
    }
    RequestOutcome::DeletedMany(keys)
}

fn read(shared: &FakeState, request: &S3Request) -> Result<RequestOutcome, ErrorReply> {
    let objects = shared.objects();
    let object = objects.get(&request.key).ok_or_else(|| ErrorReply::new(404, "NoSuchKey"))?;
    match &request.condition {
        Some(Precondition::IsNot(etag)) if *etag == object.etag => Ok(RequestOutcome::Unchanged),
        Some(Precondition::Absent) => Ok(RequestOutcome::Unchanged),
        Some(Precondition::Is(etag)) if *etag != object.etag => {
            Err(ErrorReply::new(412, "PreconditionFailed"))
        }
        _ => Ok(RequestOutcome::Read(object.clone())),
    }
}

fn listed(shared: &FakeState, request: &S3Request) -> RequestOutcome {
    let listing = shared.modes().listing;
    let objects = shared.objects();
    RequestOutcome::Listed(objects.list(&request.key, &request.page, listing.behind, listing.keys_max))
}
