//! Bulk operations: every wrong request is refused with a code and begins nothing.

use goldseam_api::doc::operation::{FailuresQuery, NewOperation, OperationsQuery};
use goldseam_api::{Caller, OperationsApi};
use serde_json::json;

use crate::support::Place;

#[tokio::test]
async fn every_bad_operation_has_a_code_and_begins_nothing() {
    let place = Place::empty().await;
    for (request, code) in [
        (json!({ "verb": "retry", "where": "" }), "GS0145"),
        (json!({ "verb": "retry", "where": "  " }), "GS0145"),
        (json!({ "verb": "signal", "where": "has created" }), "GS0145"),
        (json!({ "verb": "retry", "where": "has created", "payload": 1 }), "GS0145"),
        (json!({ "verb": "retry", "where": "has created", "signal": "go" }), "GS0145"),
        (json!({ "verb": "retry", "where": "status === failed" }), "GS0139"),
        (json!({ "verb": "retry", "where": "has created", "canary": "0,all" }), "GS0148"),
        (json!({ "verb": "pause", "where": "has created", "canary": "1,all" }), "GS0148"),
        (json!({ "verb": "retry", "where": "has created", "rate": "0/s" }), "GS0147"),
    ] {
        let new: NewOperation = serde_json::from_value(request.clone()).unwrap();
        for problem in [
            place.api.preview_operation(new.clone()).await.unwrap_err(),
            place.api.begin_operation(&Caller::default(), new).await.unwrap_err(),
        ] {
            assert_eq!(
                (problem.status, problem.code.as_deref()),
                (400, Some(code)),
                "{request}: {problem:?}"
            );
        }
    }
    let begun = place.api.operations(OperationsQuery::default()).await.unwrap();
    assert!(begun.items.is_empty(), "{begun:?}");
}

#[tokio::test]
async fn operations_and_failures_refuse_an_attribute_that_no_run_has() {
    let place = Place::with(&[("broken", "break")]).await;
    let text = "status = failed and regoin = \"eu\"";
    let new: NewOperation = serde_json::from_value(json!({ "verb": "retry", "where": text })).unwrap();
    let query = FailuresQuery { condition: Some(text.to_owned()) };
    for problem in [
        place.api.preview_operation(new.clone()).await.unwrap_err(),
        place.api.begin_operation(&Caller::default(), new).await.unwrap_err(),
        place.api.failures(query).await.unwrap_err(),
    ] {
        assert_eq!((problem.status, problem.code.as_deref()), (400, Some("GS0140")), "{problem:?}");
    }
    let begun = place.api.operations(OperationsQuery::default()).await.unwrap();
    assert!(begun.items.is_empty(), "{begun:?}");
    let known = json!({ "verb": "retry", "where": "regoin = \"eu\" or status = failed" });
    let known = place.api.preview_operation(serde_json::from_value(known).unwrap()).await.unwrap();
    assert_eq!(known.matched, 1, "a condition that selects runs is not refused");
}
