//! Hints as text with commands, and as steps for programs.

use goldseam::RunId;
use goldseam_api::doc::change::NewNote;
use goldseam_api::{ApiResult, Caller, CommandsApi, Problem, RunsApi};
use serde_json::{Value, json};

use crate::support::Place;

fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

fn problem<T: std::fmt::Debug>(answer: ApiResult<T>) -> Value {
    serde_json::to_value(answer.unwrap_err()).unwrap()
}

#[tokio::test]
async fn a_problem_has_its_steps_as_commands_and_as_data() {
    let place = Place::with(&[("done", "ship")]).await;
    let caller = Caller::default();
    let missing = problem(place.api.detail(&run("x")).await);
    assert_eq!(missing["hint"], "goldseam ls lists the runs of this store");
    assert_eq!(missing["next"], json!([{ "verb": "list" }]));
    let ended = problem(place.api.pause(&caller, &run("done"), NewNote::default()).await);
    assert_eq!(ended["hint"], "goldseam show done shows how it ended");
    assert_eq!(ended["next"], json!([{ "verb": "show", "run": "done" }]));
    let read: Problem = serde_json::from_value(ended.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), ended);
    let plain = problem(place.api.detail(&run("x")).await.map_err(|_| Problem::not_found("x").hint("y")));
    assert_eq!(plain.get("next"), None);
}

#[tokio::test]
async fn why_lists_commands_and_the_same_steps_as_data() {
    let place = Place::with(&[("asks", "ask"), ("waits", "wait"), ("fails", "break")]).await;
    let why = async |id| {
        let explained = place.api.why(&run(id)).await.unwrap();
        let document = serde_json::to_value(explained).unwrap();
        (document["you_can"].clone(), document["next"].clone())
    };
    let fails = why("fails").await;
    assert_eq!(fails, (json!(["goldseam retry fails"]), json!([{ "verb": "retry", "run": "fails" }])));
    let (commands, steps) = why("waits").await;
    assert!(commands[0].as_str().unwrap().starts_with("goldseam signal waits paid"), "{commands}");
    let step = &steps[0];
    assert_eq!(
        (&step["verb"], &step["run"], &step["name"]),
        (&json!("signal"), &json!("waits"), &json!("paid"))
    );
    let (commands, steps) = why("asks").await;
    assert_eq!(commands, json!(["goldseam answer asks review '{}'"]));
    assert_eq!(steps, json!([{ "verb": "answer", "run": "asks", "question": "review", "value": {} }]));
    place.hide_question("asks").await;
    let (commands, steps) = why("asks").await;
    assert_eq!(commands[0], "goldseam recover asks");
    assert_eq!(steps[0], json!({ "verb": "recover", "run": "asks" }));
}
