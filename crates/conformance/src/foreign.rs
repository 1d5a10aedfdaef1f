//! States of another system in the same place; a store that cannot have any passes every case.

use goldseam_store::api::{RunFilter, Written};
use goldseam_store::foreign::{ForeignState, ForeignStates};

use super::Fixture;
use super::make::{ALL, append, append_with_row, run};

/// Returns the foreign states, unless the store cannot have any.
fn place(fixture: &Fixture) -> Option<&dyn ForeignStates> {
    fixture.damage.as_ref()?;
    fixture.store.foreign()
}

async fn put(fixture: &Fixture, name: &str, body: &str) {
    fixture.damage.as_ref().unwrap().put_foreign(&run(name), body).await;
}

async fn all(place: &dyn ForeignStates, limit: u32) -> Vec<ForeignState> {
    let mut all = vec![];
    let mut after = None;
    loop {
        let page = place.states(after.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        all.extend(page.items);
        assert!(all.len() < 1_000, "the list does not end");
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

async fn only(place: &dyn ForeignStates) -> ForeignState {
    all(place, ALL).await.pop().unwrap()
}

fn names(states: &[ForeignState]) -> Vec<&str> {
    states.iter().map(|state| state.id.as_str()).collect()
}

/// The order is that of the ids, byte by byte, regardless of the order of creation.
pub async fn foreign_states_are_listed_in_order_of_id(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    assert_eq!(all(place, ALL).await, []);
    let mut expected = vec!["b", "a", "a-1", "Z", "a.1", "10", "9", "aa"];
    for name in &expected {
        put(fixture, name, "{}").await;
    }
    expected.sort_unstable();
    assert_eq!(names(&all(place, ALL).await), expected);
}

/// Pages of any size give every state once.
pub async fn pages_of_foreign_states_are_complete(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    let expected: Vec<String> = (0..7).map(|n| format!("w{n}")).collect();
    for name in &expected {
        put(fixture, name, &format!("{{\"id\":\"{name}\"}}")).await;
    }
    for limit in [1, 3, 7, 100] {
        assert_eq!(names(&all(place, limit).await), expected, "pages of {limit}");
    }
}

/// Whitespace, order, numbers and text stay as they were written.
pub async fn a_foreign_state_is_kept_exactly(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    let body = "{ \"z\": 1.10,\n\t\"a\" :12345678901234567890123, \"ü\":\"\\u0041\" }";
    put(fixture, "w", body).await;
    assert_eq!(only(place).await.body, body);
    let other = body.replace("1.10", "1.1000");
    let version = only(place).await.version;
    assert_eq!(place.swap(&run("w"), &version, &other).await.unwrap(), Written::Done);
    assert_eq!(only(place).await.body, other);
}

/// A swap with the right version writes, and makes that version old.
pub async fn a_swap_compares_and_sets(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    put(fixture, "w", "{\"n\":1}").await;
    let first = only(place).await;
    assert_eq!(place.swap(&first.id, &first.version, "{\"n\":2}").await.unwrap(), Written::Done);
    let second = only(place).await;
    assert_eq!(second.body, "{\"n\":2}");
    assert_ne!(second.version, first.version);
    assert_eq!(place.swap(&first.id, &second.version, "{\"n\":3}").await.unwrap(), Written::Done);
}

/// A swap with an old version changes nothing and returns the present state.
pub async fn a_lost_swap_changes_nothing(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    put(fixture, "w", "{\"n\":1}").await;
    let old = only(place).await;
    put(fixture, "w", "{\"n\":2}").await;
    let lost = place.swap(&old.id, &old.version, "{\"n\":3}").await.unwrap();
    let now = only(place).await;
    assert_eq!(now.body, "{\"n\":2}");
    assert_eq!(lost, Written::Lost(Some(now)));
}

/// Of many concurrent swaps with the same version, one succeeds.
pub async fn one_of_many_swaps_wins(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    put(fixture, "w", "{}").await;
    let seen = only(place).await;
    let writers = (0..8).map(|n| {
        let store = fixture.shared();
        let seen = seen.clone();
        tokio::spawn(async move {
            let body = format!("{{\"n\":{n}}}");
            let written = store.foreign().unwrap().swap(&seen.id, &seen.version, &body).await.unwrap();
            (written == Written::Done).then_some(body)
        })
    });
    let mut winners = vec![];
    for writer in writers.collect::<Vec<_>>() {
        winners.extend(writer.await.unwrap());
    }
    assert_eq!(winners, [only(place).await.body]);
}

/// A swap never creates a state.
pub async fn a_swap_never_creates_a_state(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    put(fixture, "w", "{}").await;
    let version = only(place).await.version;
    assert_eq!(place.swap(&run("other"), &version, "{}").await.unwrap(), Written::Lost(None));
    assert_eq!(names(&all(place, ALL).await), ["w"]);
}

/// Runs and foreign states are not in each other's lists.
pub async fn runs_and_foreign_states_are_listed_separately(fixture: &Fixture) {
    let Some(place) = place(fixture) else { return };
    fixture.append(append_with_row("ours", 0)).await;
    fixture.append(append("rowless", 0, &["a"])).await;
    put(fixture, "theirs", "{\"id\":\"theirs\",\"status\":\"running\",\"updated_at\":1}").await;
    assert_eq!(names(&all(place, ALL).await), ["theirs"]);
    assert_eq!(fixture.store.head(&run("theirs")).await.unwrap(), None);
    assert_eq!(fixture.store.rowless(None, ALL).await.unwrap(), [run("rowless")]);
    let listed = fixture.store.runs(RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap().items;
    assert_eq!(listed.iter().map(|row| row.summary.run.as_str()).collect::<Vec<_>>(), ["ours"]);
}
