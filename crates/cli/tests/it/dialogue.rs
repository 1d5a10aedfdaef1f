//! `goldseam published` and `goldseam request`.

use goldseam::prelude::*;

use crate::support::{Place, block};

async fn basket(ctx: Context, _: ()) -> goldseam::Result<u32> {
    let mut total = 0;
    loop {
        match ctx.select("next").request("add").signal("close").await? {
            Selected::Request(line) => {
                total += line.read::<u32>()?;
                ctx.publish("total", &total).await?;
                match total > 100 {
                    true => line.refuse("too much").await?,
                    false => line.answer(&total).await?,
                }
            }
            _ => return Ok(total),
        }
    }
}

/// An engine with the workflow, until it is dropped.
struct Running {
    runtime: tokio::runtime::Runtime,
    engine: Option<Engine>,
}

impl Running {
    fn on(place: &Place) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let engine = runtime.block_on(async {
            Engine::open(&place.url()).await.unwrap().workflow("basket", basket).start().await.unwrap()
        });
        Self { runtime, engine: Some(engine) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.runtime.block_on(engine.shutdown());
        }
    }
}

#[test]
fn a_request_prints_its_answer_and_values_are_shown() {
    let place = Place::new();
    let running = Running::on(&place);
    place.run(&["start", "basket", "--id", "b-1"]).ok();
    let add = |data: &str, id: &str| place.run(&["request", "b-1", "add", "--data", data, "--id", id]);
    assert_eq!(add("40", "one").ok(), "40\n");
    assert_eq!(add("40", "one").ok(), "40\n", "the same id prints the same answer");
    add("41", "one").fails(6, "GS0174");
    assert_eq!(place.run(&["published", "b-1", "total"]).ok(), "40\n");
    let all = place.run(&["published", "b-1", "--json"]).json();
    assert_eq!(all["items"][0]["value"], serde_json::json!(40));
    let missing = place.run(&["published", "b-1", "speed"]).fails(3, "GS0168");
    assert!(missing.contains("it has published total"), "{missing}");
    let refused = add("90", "two").fails(5, "GS0170");
    assert!(refused.contains("refused request add: too much"), "{refused}");
    let json = place.run(&["request", "b-1", "add", "--data", "90", "--id", "two", "--json"]);
    assert_eq!((json.code, json.out.contains("\"refused\":\"too much\"")), (5, true), "{}", json.out);
    let why = place.run(&["why", "b-1"]).ok();
    assert!(why.contains("goldseam request b-1 add"), "{why}");
    let history = place.run(&["history", "b-1"]).ok();
    assert!(history.contains("request add (one)"), "{history}");
    place.run(&["signal", "b-1", "close"]).ok();
    place.run(&["watch", "b-1"]).ok();
    assert_eq!(place.run(&["published", "b-1", "total"]).ok(), "130\n");
    add("1", "three").fails(6, "GS0105");
    drop(running);
}

#[test]
fn a_request_that_is_not_answered_in_time_says_how_to_wait() {
    let place = Place::new();
    block(async {
        let client = goldseam::connect(&place.url()).await.unwrap();
        client.start("basket", "b-1", &()).await.unwrap();
    });
    let ask = || place.run(&["request", "b-1", "add", "--data", "7", "--id", "one", "--timeout", "0s"]);
    let pending = ask().fails(8, "GS0169");
    assert!(pending.contains("--id one"), "{pending}");
    place.run(&["terminate", "b-1", "--reason", "closed", "--yes"]).ok();
    let ended = ask().fails(5, "GS0171");
    assert!(ended.contains("run b-1 is cancelled and did not answer request add (id one)"), "{ended}");
    place.run(&["request", "b-1", "a b"]).fails(2, "GS0101");
    place.run(&["request", "none", "add"]).fails(3, "GS0104");
    place.run(&["request", "b-1", "add", "--data", "{"]).fails(2, "GS0102");
}
