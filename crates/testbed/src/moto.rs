//! Moto: S3 in the memory of one Python process. It enforces conditions, and accepts any keys.

use crate::keeper::ServerScript;
use crate::s3::{self, S3Server, SharedBucket, TestBucket, status};
use crate::{TestbedError, wheels};

/// The variable with the URL of a bucket on a running server, which [`shared`] uses.
pub const VARIABLE: &str = "GOLDSEAM_TEST_S3_MOTO";

/// Moto checks a condition and writes later; on a busy machine another thread may write in between, and both win in one
/// of a hundred races. This program therefore serializes all requests.
const PROGRAM: &str = r"
import threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as App
from moto.server import main
alone, serve = threading.Lock(), App.__call__
def in_turn(self, environ, start_response):
    with alone:
        return serve(self, environ, start_response)
App.__call__ = in_turn
main()
";

static JOB: ServerScript = ServerScript {
    name: "moto",
    prepare: ":",
    serve: r#"
        export PYTHONPATH="$MODULES" PYTHONNOUSERSITE=1
        exec "$BIN" -c "$PROGRAM" -H 127.0.0.1 -p "$arg""#,
    ready: ":",
    end: "KILL",
    clean: "",
    ports: 1,
    answers: |ports| {
        let path = format!("/{}", s3::BUCKET);
        ports.iter().all(|port| status(*port, "PUT", &path) == Some(200))
    },
    refuses_root: false,
};

/// Starts a server with one bucket. Installs it first if it is missing. Stopping it loses its objects.
pub fn start() -> Result<S3Server, TestbedError> {
    let packages = ["moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"];
    let (python, modules) = wheels::modules("moto", &packages)?;
    let values = [
        ("BIN", python.display().to_string()),
        ("MODULES", modules.display().to_string()),
        ("PROGRAM", PROGRAM.to_owned()),
    ];
    S3Server::start(&JOB, &values)
}

/// The bucket that all tests of a run share: that of the environment (`cargo xtask test` starts its server), else one
/// on a server that this process starts and that ends with it.
pub fn shared() -> Result<&'static TestBucket, TestbedError> {
    static SHARED: SharedBucket = SharedBucket::new();
    s3::shared(&SHARED, VARIABLE, start)
}

/// A new bucket on the server of [`shared`]: moto reads a whole bucket for every list.
pub fn fresh(name: &str) -> Result<TestBucket, TestbedError> {
    let bucket = shared()?.named(name);
    let port = bucket.endpoint.rsplit(':').next().and_then(|port| port.parse().ok());
    match port.and_then(|port| s3::status(port, "PUT", &format!("/{name}"))) {
        Some(200) => Ok(bucket),
        answer => Err(TestbedError::failed(format!("creating bucket {name}"), format!("status {answer:?}"))),
    }
}
