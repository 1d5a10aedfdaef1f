//! Runs the test vectors of the protocol, `docs/protocol/*.json`, against the real engine.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use goldseam::client::By;
use goldseam::prelude::*;
use goldseam::unstable::core::{Hash, QueueName};
use goldseam::unstable::engine::queue::Want;
use goldseam::{Limits, Payload, RunId, TraceContext};
use serde_json::{Value, json};

use super::client::Server;
use crate::place::Place;
use crate::support::{Scratch, eventually, ok};

fn vectors() -> Vec<(PathBuf, Value)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    all.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, value)
    };
    all.into_iter().map(read).collect()
}

/// Checks that `found` has all fields of `wanted`. Lists must have the same length.
fn has(found: &Value, wanted: &Value, at: &str) -> Result<(), String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().try_for_each(|(key, wanted)| {
            let at = format!("{at}.{key}");
            let found = found.get(key).ok_or_else(|| format!("{at} is missing"))?;
            has(found, wanted, &at)
        }),
        (Value::Array(some), Value::Array(all)) => {
            if some.len() != all.len() {
                return Err(format!("{at} has {} items, not {}: {found}", some.len(), all.len()));
            }
            some.iter().zip(all).enumerate().try_for_each(|(i, (f, w))| has(f, w, &format!("{at}[{i}]")))
        }
        _ if found == wanted => Ok(()),
        _ => Err(format!("{at} is {found}, not {wanted}")),
    }
}

/// The state of one script.
struct ScriptRun {
    server: Arc<Place>,
    run: RunId,
    worker: String,
    token: String,
    after: u64,
}

fn payload(value: &Value) -> Payload {
    Payload::of(value, &Limits::default()).unwrap()
}

impl ScriptRun {
    async fn register(&mut self) {
        let body = json!({ "name": "vectors", "workflows": ["order@1"], "slots": 4, "lease_ms": 60_000 });
        let response = self.server.call("POST", "/v1/workers", body).await.unwrap();
        response["worker"].as_str().unwrap().clone_into(&mut self.worker);
    }

    async fn claim(&mut self) -> Value {
        let path = format!("/v1/workers/{}/claim", self.worker);
        let body = json!({ "limit": 1, "wait_ms": 20_000 });
        let response = self.server.call("POST", &path, body).await.unwrap();
        let execution = response["executions"][0].clone();
        self.follow(&execution);
        execution
    }

    /// Uses this execution from now on.
    fn follow(&mut self, execution: &Value) {
        execution["token"].as_str().unwrap().clone_into(&mut self.token);
        self.after = execution["end"].as_u64().unwrap();
    }

    async fn append(&mut self, append: &Value) -> Result<Value, String> {
        let after = append["after"].as_u64().unwrap_or(self.after);
        let body =
            json!({ "token": self.token, "id": append["id"], "after": after, "doings": append["doings"] });
        let response = self.server.call("POST", "/v1/executions/append", body).await?;
        self.after = response["end"].as_u64().unwrap();
        if response["next"].is_object() {
            self.follow(&response["next"]);
        }
        Ok(response)
    }

    async fn outside(&mut self, what: &str, with: &Value) {
        let client = &self.server.client;
        let run = &self.run;
        let by = || By { reason: with["reason"].as_str().unwrap_or_default().to_owned(), ..By::default() };
        match what {
            "signal" => {
                let name = with["name"].as_str().unwrap();
                let id = with["id"].as_str().map(str::to_owned);
                client.signal(run, name, payload(&with["payload"]), id).await.unwrap();
            }
            "answer" => {
                let question = goldseam::Path::new(with["question"].as_str().unwrap()).unwrap();
                client.answer(run, &question, payload(&with["answer"]), by()).await.unwrap();
            }
            "cancel" => drop(client.cancel(run, by()).await.unwrap()),
            "pause" => drop(client.pause(run, by()).await.unwrap()),
            "resume" => drop(client.resume(run, by()).await.unwrap()),
            "leave" => {
                let path = format!("/v1/workers/{}", self.worker);
                self.server.call("DELETE", &path, Value::Null).await.unwrap();
                self.register().await;
            }
            "task" => {
                let queue = QueueName::new(with["queue"].as_str().unwrap()).unwrap();
                let kind = with["kind"].as_str().map(str::to_owned);
                let want = Want { owner: "gpu-1".to_owned(), queue, kind, limit: 1 };
                let task = client.queue().claim(want).await.unwrap().pop().unwrap();
                assert_eq!(task.payload.read::<Value>().unwrap(), with["payload"]);
                let trace = task.step.as_ref().and_then(|step| step.trace.as_ref());
                assert_eq!(json!(trace), with["trace"]);
                client.queue().complete(&task.id, task.fence, payload(&with["complete"])).await.unwrap();
            }
            "status" => {
                let wanted = with.as_str().unwrap();
                eventually(wanted, || async { client.get(run).await.unwrap().status.to_string() == wanted })
                    .await;
            }
            _ => panic!("unknown act {what}"),
        }
    }

    async fn act(&mut self, act: &Value, at: &str) {
        let result = if act.get("claim").is_some() {
            Ok(self.claim().await)
        } else if let Some(append) = act.get("append") {
            self.append(append).await
        } else {
            let (what, with) = act.as_object().unwrap().iter().next().unwrap();
            return self.outside(what, with).await;
        };
        match (result, act.get("refused").and_then(Value::as_str)) {
            (Ok(response), None) => {
                if let Err(why) = has(&response, &act["expect"], "") {
                    panic!("{at}: {why}\n{response:#}");
                }
            }
            (Err(code), Some(wanted)) => assert_eq!(code, wanted, "{at}"),
            (result, wanted) => panic!("{at}: {result:?}, not {wanted:?}"),
        }
    }
}

async fn run_script(name: &str, vector: &Value) {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let run = RunId::new(vector["run"]["id"].as_str().unwrap()).unwrap();
    let workflow = vector["run"]["workflow"].as_str().unwrap();
    let input = payload(&vector["run"]["input"]);
    let text = |name: &str| vector["run"][name].as_str();
    let trace = text("traceparent").map(|parent| TraceContext::read(parent, text("tracestate")).unwrap());
    let options = StartOptions::default().trace(trace);
    server.client.start_with(workflow, &run, &input, options).await.unwrap();
    let mut script = ScriptRun { server, run, worker: String::new(), token: String::new(), after: 0 };
    script.register().await;
    for (nth, act) in vector["script"].as_array().unwrap().iter().enumerate() {
        script.act(act, &format!("{name}, act {nth}")).await;
    }
}

#[tokio::test]
async fn every_protocol_script_passes() {
    let scripts: Vec<_> = vectors().into_iter().filter(|(_, vector)| vector["script"].is_array()).collect();
    assert!(scripts.len() >= 12, "the vectors are missing");
    for (path, vector) in scripts {
        run_script(&path.file_stem().unwrap().to_string_lossy(), &vector).await;
    }
}

#[test]
fn idempotency_keys_match_the_vectors() {
    let (_, vector) = vectors().into_iter().find(|(_, vector)| vector["keys"].is_array()).unwrap();
    for row in vector["keys"].as_array().unwrap() {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let generation = format!("b{}", row["generation"]);
        let key = Hash::of_parts(&[text("run"), &generation, text("path")]).to_string();
        assert_eq!(key, text("key"), "{row}");
        if row["child"].is_string() {
            assert_eq!(format!("{}.{}", text("run"), &key[..16]), text("child"));
        }
    }
}

#[test]
fn span_ids_match_the_vectors() {
    let (_, vector) = vectors().into_iter().find(|(_, vector)| vector["spans"].is_array()).unwrap();
    let trace = TraceContext::new(vector["traceparent"].as_str().unwrap()).unwrap();
    for row in vector["spans"].as_array().unwrap() {
        let run = RunId::new(row["run"].as_str().unwrap()).unwrap();
        let span = match row["path"].as_str() {
            Some(path) => {
                let key = Hash::of_parts(&[run.as_str(), &format!("b{}", row["generation"]), path]);
                trace.span(&key.to_string())
            }
            None => trace.run_span(&run),
        };
        assert_eq!(span, row["span"].as_str().unwrap(), "{row}");
    }
}

/// Makes the calls of the vector through the Rust API.
fn call(ctx: Context, calls: Vec<Value>) -> BoxFuture<'static, goldseam::Result<()>> {
    Box::pin(async move {
        for row in calls {
            let name = row["name"].as_str().unwrap().to_owned();
            let inside = row["inside"].as_array().cloned().unwrap_or_default();
            match (row["call"].as_str().unwrap(), row["key"].as_str()) {
                ("step", None) => ctx.step(name.as_str(), || ok(())).await?,
                ("step", Some(key)) => {
                    ctx.step((name.as_str(), key), || ok(())).await?;
                }
                ("group", _) => ctx.group(name.as_str(), |ctx| call(ctx, inside)).await?,
                ("arm", _) => call(ctx.arm(name.as_str())?, inside).await?,
                ("signal", _) => ctx.signal::<()>(&name).await?,
                ("progress", _) => ctx.progress("here").await?,
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    })
}

fn listed(calls: &[Value], out: &mut Vec<(String, u64)>) {
    for row in calls {
        // An arm is not an operation; it only takes an ordinal.
        if row["call"] != "arm" {
            out.push((row["path"].as_str().unwrap().to_owned(), row["ord"].as_u64().unwrap()));
        }
        listed(row["inside"].as_array().map_or(&[], Vec::as_slice), out);
    }
}

#[tokio::test]
async fn paths_match_the_vectors() {
    let (_, vector) = vectors().into_iter().find(|(_, vector)| vector["calls"].is_array()).unwrap();
    let calls = vector["calls"].as_array().unwrap().clone();
    let scratch = Scratch::new();
    let engine = scratch.engine("calls", call).await;
    let run = engine.start("calls", "c-1", &calls).await.unwrap();
    run.signal("go", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let mut wanted = Vec::new();
    listed(&calls, &mut wanted);
    let state = engine.client().state(run.id()).await.unwrap();
    let mut found: Vec<(String, u64)> =
        state.ops.iter().map(|(path, op)| (path.as_str().to_owned(), u64::from(op.ord))).collect();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    engine.shutdown().await;
}
