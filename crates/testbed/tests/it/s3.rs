//! Object stores respond at their addresses.

use std::io::{Read, Write};
use std::net::TcpStream;

use goldseam_testbed::s3::{BUCKET, TestBucket};
use goldseam_testbed::{moto, rclone, seaweedfs};

/// The status and the text of the response to an unsigned request.
fn ask(bucket: &TestBucket, method: &str, key: &str) -> (u16, String) {
    let host = bucket.endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "{method} /{}/{key} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", bucket.name)
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn all_tests_share_one_server_of_each_kind() {
    for (shared, status, code) in [
        (seaweedfs::shared as fn() -> _, 403, "AccessDenied"),
        (moto::shared, 404, "NoSuchKey"),
        (rclone::shared, 400, "UnsupportedAlgorithm"),
    ] {
        let bucket: &TestBucket = shared().unwrap();
        assert_eq!(bucket.name, BUCKET);
        assert_eq!(shared().unwrap(), bucket);
        let (answered, text) = ask(bucket, "GET", "nothing");
        assert_eq!(answered, status, "{text}");
        assert!(text.contains(code), "{text}");
    }
}

#[test]
fn keeps_its_address_after_a_restart() {
    let server = seaweedfs::start().unwrap();
    let bucket = server.bucket();
    assert_eq!(ask(&bucket, "GET", "nothing").0, 403);
    server.stop().unwrap();
    assert!(TcpStream::connect(bucket.endpoint.strip_prefix("http://").unwrap()).is_err());
    server.start_again().unwrap();
    assert_eq!(server.bucket(), bucket);
    assert_eq!(ask(&bucket, "GET", "nothing").0, 403);
}
