//! Unusable servers, keys and prefixes: each has its own error, and nothing changes.

use goldseam_store_object::url::parse;
use goldseam_store_object::{check, migrate};
use goldseam_testbed::s3::READER;
use goldseam_testbed::{moto, rclone, seaweedfs};

use crate::support::{code, keys, prefix, put, shown};

#[tokio::test]
async fn refuses_a_server_that_ignores_conditions() {
    let bucket = rclone::shared().unwrap();
    let prefix = prefix();
    let options = parse(&bucket.url(&prefix)).unwrap();
    let text = shown(migrate(options.clone()).await, &bucket.endpoint, &prefix);
    insta::assert_snapshot!(text, @r#"
    GS0220: the server does not enforce conditional writes: two writers created the same object, and both writes were acknowledged
    hint: use a server that enforces If-None-Match and If-Match on writes: Amazon S3, Cloudflare R2, MinIO, Ceph, SeaweedFS
    "#);
    assert!(keys(bucket, &prefix).await.is_empty());
    assert_eq!(code(check(options).await), "GS0220");
    assert!(keys(bucket, &prefix).await.is_empty());
}

#[tokio::test]
async fn tells_wrong_keys_from_missing_permissions() {
    let bucket = seaweedfs::shared().unwrap();
    let prefix = prefix();
    let open = async |keys| {
        let options = parse(&bucket.accessed_by(keys).url(&prefix)).unwrap();
        shown(migrate(options).await, &bucket.endpoint, &prefix)
    };
    insta::assert_snapshot!(open((&bucket.access_key_id, "wrong")).await, @r#"
    GS0217: the server rejects these access keys, while reading an object: 403 SignatureDoesNotMatch The request signature we calculated does not match the signature you provided. Check your key and signing method.
    hint: check access_key_id and secret_access_key in the URL, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; session keys expire
    "#);
    insta::assert_snapshot!(open(("unknown", "wrong")).await, @r#"
    GS0217: the server rejects these access keys, while reading an object: 403 InvalidAccessKeyId The access key ID you provided does not exist in our records.
    hint: check access_key_id and secret_access_key in the URL, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; session keys expire
    "#);
    insta::assert_snapshot!(open(READER).await, @r#"
    GS0219: these access keys may not write to "PREFIX" in bucket "goldseam" at SERVER: 403 AccessDenied Access Denied.
    hint: allow s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix and s3:ListBucket on the bucket
    "#);
    assert!(keys(bucket, &prefix).await.is_empty());
}

#[tokio::test]
async fn does_not_create_a_missing_bucket() {
    let prefix = prefix();
    for bucket in [seaweedfs::shared().unwrap(), moto::shared().unwrap()] {
        let options = parse(&bucket.named("no-such-bucket").url(&prefix)).unwrap();
        assert_eq!(code(check(options.clone()).await), "GS0218");
        assert_eq!(code(migrate(options).await), "GS0218");
    }
    let bucket = seaweedfs::shared().unwrap().named("no-such-bucket");
    let text = shown(migrate(parse(&bucket.url(&prefix)).unwrap()).await, &bucket.endpoint, &prefix);
    insta::assert_snapshot!(text, @r#"
    GS0218: the bucket does not exist, while reading an object: 404 NoSuchBucket The specified bucket does not exist
    hint: create it, or check bucket, endpoint and region in the URL
    "#);
}

#[tokio::test]
async fn reports_an_unreachable_server_at_once() {
    let keys = "region=us-east-1&access_key_id=a&secret_access_key=b";
    // A closed port, and a name that does not resolve.
    for (endpoint, message) in [("http://127.0.0.1:1", "refused"), ("https://nowhere.invalid", "")] {
        let options = parse(&format!("s3://bucket/p?endpoint={endpoint}&{keys}")).unwrap();
        let text = shown(migrate(options).await, endpoint, "none");
        assert!(text.starts_with("GS0205: cannot reach \"p\" in bucket \"bucket\" at SERVER: "), "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[tokio::test]
async fn reports_https_to_an_http_server() {
    let mut bucket = moto::shared().unwrap().clone();
    bucket.endpoint = bucket.endpoint.replace("http://", "https://");
    let text = shown(migrate(parse(&bucket.url("p")).unwrap()).await, &bucket.endpoint, "none");
    insta::assert_snapshot!(text, @r#"
    GS0205: cannot reach "p" in bucket "goldseam" at SERVER: received corrupt message of type InvalidContentType
    hint: check that the server runs, and check endpoint and region in the URL: host, port, http or https
    "#);
}

#[tokio::test]
async fn does_not_change_a_prefix_of_another_program() {
    let bucket = seaweedfs::shared().unwrap();
    let prefix = prefix();
    put(bucket, &format!("{prefix}/photos/1.jpg"), "not ours").await;
    put(bucket, &format!("{prefix}/workflow/a/state.json"), "{}").await;
    let options = parse(&bucket.url(&prefix)).unwrap();
    let text = shown(migrate(options.clone()).await, &bucket.endpoint, &prefix);
    insta::assert_snapshot!(text, @r#"
    GS0222: "PREFIX" in bucket "goldseam" at SERVER is in use by another program: it holds "photos/1.jpg" but no goldseam.json
    hint: use another prefix, as in s3://BUCKET/ANOTHER; nothing was changed here
    "#);
    assert_eq!(code(check(options).await), "GS0222");
    assert_eq!(keys(bucket, &prefix).await, ["photos/1.jpg", "workflow/a/state.json"]);
}

#[tokio::test]
async fn does_not_change_a_store_of_a_newer_release() {
    let bucket = moto::shared().unwrap();
    let prefix = prefix();
    put(bucket, &format!("{prefix}/goldseam.json"), r#"{"format": 2, "whatever": true}"#).await;
    let options = parse(&bucket.url(&prefix)).unwrap();
    let text = shown(migrate(options.clone()).await, &bucket.endpoint, &prefix);
    insta::assert_snapshot!(text, @r#"
    GS0202: "PREFIX" in bucket "goldseam" at SERVER has format 2; this program supports formats up to 1
    hint: use a newer goldseam; an older one must not write to a format that it does not know
    "#);
    assert_eq!(code(check(options).await), "GS0202");
}
