//! Expired locks, and locks of dead nodes.

use std::time::Duration;

use goldseam::unstable::core::LockName;
use goldseam::unstable::core::lock::TTL_DEFAULT;

use super::{LEASE, SECOND, fixtures};

#[tokio::test]
async fn claim_frees_expired_locks_and_raises_their_fence() {
    for fixture in fixtures() {
        let locks = fixture.client().locks();
        let name = LockName::new("lane-main").unwrap();
        let held = locks.acquire(&name, "ana", TTL_DEFAULT).await.unwrap();
        fixture.clock.advance(TTL_DEFAULT - Duration::from_millis(1));
        fixture.claim("w").await;
        assert_eq!(fixture.lock("lane-main").await, held, "not before its expiry");
        fixture.clock.advance(SECOND);
        assert!(locks.is_stale(&name).await.unwrap());
        fixture.claim("w").await;
        let free = fixture.lock("lane-main").await;
        assert_eq!((&free.holder, free.fence), (&None, held.fence + 1));
        assert_eq!(free.audit[0].what, "cleaned, held by ana: it expired");
        assert!(!locks.is_stale(&name).await.unwrap());
        assert!(
            !locks.release(&name, "ana", held.fence).await.unwrap(),
            "nothing to release is not an error"
        );
        assert_eq!(locks.extend(&name, "ana", held.fence, LEASE).await.unwrap_err().code(), "GS0302");
        assert!(locks.acquire(&name, "ben", LEASE).await.unwrap().fence > held.fence + 1);
    }
}

#[tokio::test]
async fn frees_locks_of_dead_nodes_but_not_of_silent_nodes() {
    for fixture in fixtures() {
        let silent = fixture.process(1).await;
        let dead = fixture.process(2).await;
        let left = fixture.process(3).await;
        fixture.lock_through("of-silent", &silent.id, 10 * LEASE).await;
        fixture.lock_through("of-dead", &dead.id, 10 * LEASE).await;
        fixture.lock_through("of-left", &left.id, 10 * LEASE).await;
        if let Some(memory) = &fixture.memory {
            memory.silence(&silent.id);
        }
        fixture.clock.advance(LEASE);
        let claims = fixture.client().claims();
        assert_eq!(claims.stale_locks().await.unwrap(), []);
        dead.die();
        fixture.store.forget(&left.id).await.unwrap();
        let stale = claims.stale_locks().await.unwrap();
        let names: Vec<&str> = stale.iter().map(|stale| stale.lock.name.as_str()).collect();
        assert_eq!(names, ["of-dead", "of-left"]);
        assert!(stale[0].why.contains("n-0000000000000002"), "{}", stale[0].why);
        assert!(stale[1].why.contains("n-0000000000000003"), "{}", stale[1].why);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().locks_cleaned, 2);
        assert_eq!(fixture.lock("of-dead").await.holder, None);
        assert_eq!(
            fixture.lock("of-silent").await.holder.as_deref(),
            Some("ana"),
            "silence does not prove death"
        );
    }
}
