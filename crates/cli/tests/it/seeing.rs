//! What an operator sees: nodes, workflows, questions, tasks, names of rules, and suggestions.

use std::io::Write as _;
use std::process::Stdio;

use goldseam::prelude::*;
use serde_json::Value;

use crate::faulty::faulty_store;
use crate::support::{Place, Ran, block, order, prepared};

/// Runs `work` while an engine with the workflow `order` executes the store.
fn with_engine<T>(place: &Place, work: impl FnOnce() -> T) -> T {
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("order", order).start().await.unwrap();
        let done = work();
        engine.shutdown().await;
        done
    })
}

#[test]
fn rules_are_accepted_and_shown_by_name() {
    let place = faulty_store();
    assert!(place.run(&["explain", "worker-lost"]).ok().starts_with("# O2: "));
    let page = place.run(&["explain", "O2", "--json"]).json();
    assert_eq!((&page["code"], &page["name"]), (&"O2".into(), &"worker-lost".into()));
    let found = place.run(&["doctor", "--rule", "task-missing", "--json"]);
    let document: Value = serde_json::from_str(&found.out).unwrap();
    let finding = &document["findings"][0];
    assert_eq!((&finding["code"], &finding["rule_name"]), (&"O1".into(), &"task-missing".into()));
    assert_eq!(document["counts"][0]["rule_name"], "task-missing");
    let text = place.run(&["doctor"]).out;
    assert!(text.contains("\thidden-question\tgoldseam doctor --rule hidden-question --fix\n"), "{text}");
    assert!(place.run(&["why", "hidden"]).ok().contains("wrong: rule hidden-question (A2), "));
    let why = place.run(&["why", "hidden", "--json"]).json();
    assert_eq!(why["findings"][0]["rule_name"], "hidden-question");
    let dry = place.run(&["recover", "hidden", "--rule", "hidden-question", "--dry-run"]).ok();
    assert!(dry.starts_with("hidden: rule hidden-question (A2), "), "{dry}");
    place.run(&["recover", "hidden", "--rule", "hidden-question"]).ok();
    let list = place.run(&["recoveries"]).ok();
    assert!(list.contains("\thidden-question (A2)\t"), "{list}");
    let stats = place.run(&["recoveries", "--stats", "--json"]).json();
    assert_eq!(stats["items"][0]["rule_name"], "hidden-question");
    let wrong = place.run(&["doctor", "--rule", "worker-lots"]);
    assert_eq!((wrong.code, wrong.err.contains("did you mean worker-lost?")), (2, true), "{}", wrong.err);
    let wrong = place.run(&["explain", "worker-lots"]);
    assert_eq!((wrong.code, wrong.err.contains("did you mean worker-lost?")), (3, true), "{}", wrong.err);
}

#[test]
fn nodes_lists_live_nodes_and_unserved_work() {
    let place = prepared();
    let empty = place.run(&["nodes"]);
    assert!(
        empty.code == 1 && empty.out.contains("\nunserved: 1 run of order@1 in queue default"),
        "{}",
        empty.out
    );
    with_engine(&place, || {
        let nodes = place.run(&["nodes", "--json"]).json();
        let node = &nodes["items"][0];
        assert_eq!(
            (&node["alive"], &node["state"], &node["workflows"][0]),
            (&true.into(), &"up".into(), &"order@1".into())
        );
        assert!(node["running"].is_number() && node.get("why").is_none(), "{nodes}");
        assert_eq!(nodes["unserved"], serde_json::json!([]));
        place.run(&["start", "ghost", "--id", "ghost-1"]).ok();
        let ran = place.run(&["nodes"]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.out.contains("\tyes\tup\t") && ran.out.contains("\torder@1\n"), "{}", ran.out);
        assert!(ran.out.contains("unserved: 1 run of ghost in queue default"), "{}", ran.out);
        assert!(ran.out.contains("a worker with ghost; no live node has the workflow"), "{}", ran.out);
    });
    // A node that leaves is forgotten at once; its work is still unserved.
    let all: Value = serde_json::from_str(&place.run(&["nodes", "--all", "--json"]).out).unwrap();
    assert_eq!(
        (all["items"].as_array().map(Vec::len), &all["unserved"][0]["needs"]),
        (Some(0), &"ghost".into())
    );
}

#[test]
fn a_queue_that_no_live_node_takes_is_named_everywhere() {
    let place = prepared();
    with_engine(&place, || {
        let nodes = place.run(&["nodes", "--json"]).json();
        assert_eq!(nodes["items"][0]["queues"], serde_json::json!(["default"]));
        place.run(&["start", "order", "--id", "img", "--queue", "images"]).ok();
        let waits = "a worker with order@1 that takes queue images; live ones take default";
        let shown = place.run(&["show", "img"]).ok();
        assert!(shown.contains(waits), "{shown}");
        let note = "waits for a worker with order@1 that takes queue images";
        assert!(place.run(&["ls", "--status", "queued"]).ok().contains(&format!("{note}\n")));
        let why = place.run(&["why", "img"]).ok();
        assert!(why.contains(note) && why.contains("N1"), "{why}");
        let nodes = place.run(&["nodes"]);
        let line = "unserved: 1 run of order@1 in queue images, oldest ";
        assert!(nodes.code == 1 && nodes.out.contains(line) && nodes.out.contains(waits), "{}", nodes.out);
        let stats = place.run(&["queue", "stats"]);
        assert!(stats.out.contains("images\t1\t1\t0\t0\t") && stats.out.contains(line), "{}", stats.out);
        let stats = place.run(&["queue", "stats", "--json"]).json();
        let images = stats["queues"].as_array().unwrap().iter().find(|one| one["queue"] == "images").unwrap();
        assert_eq!((&images["nodes"], &images["tasks_due"]), (&0.into(), &0.into()));
        assert_eq!(stats["unserved"][0]["runs"], serde_json::json!(["img"]));
        assert_eq!(place.run(&["doctor", "--rule", "no-worker"]).code, 1);
    });
}

#[test]
fn workflows_lists_versions_nodes_and_the_last_error() {
    let place = prepared();
    place.run(&["start", "ghost", "--id", "ghost-1"]).ok();
    with_engine(&place, || {
        let list = place.run(&["workflows", "--json"]).json();
        let items = list["items"].as_array().unwrap();
        let names: Vec<&str> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ghost", "order"]);
        assert_eq!((&items[0]["nodes"], &items[1]["nodes"]), (&0.into(), &1.into()));
        assert_eq!(items[1]["versions"], serde_json::json!([1]));
        assert_eq!(items[1]["runs"]["failed"], 1);
        assert_eq!(items[1]["last_error"]["run"], "failed");
        assert!(items[1]["last_error"]["message"].as_str().unwrap().contains("no truck"), "{list}");
        let text = place.run(&["workflows"]).ok();
        assert!(text.contains("ghost\t-\tnone\t1 queued\t-\n"), "{text}");
    });
}

#[test]
fn questions_lists_the_command_that_answers_each() {
    let place = prepared();
    let list = place.run(&["questions", "--json"]).json();
    assert_eq!((&list["items"][0]["run"], &list["items"][0]["path"]), (&"asks".into(), &"review".into()));
    let text = place.run(&["questions"]).ok();
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with("asks\torder\treview\t") && line.contains("\tIs it fine?\t"), "{text}");
    let command = place.run(&["questions", "-q"]).ok();
    let words: Vec<&str> = command.trim().splitn(5, ' ').collect();
    assert_eq!(words[..4], ["goldseam", "answer", "asks", "review"], "{command}");
    place.run(&["answer", "asks", "review", words[4].trim_matches('\'')]).ok();
    assert_eq!(place.run(&["questions", "-q"]).ok(), "");
    assert_eq!(place.run(&["questions", "--run", "waits", "-q"]).ok(), "");
    place.run(&["questions", "--run", "nothing"]).fails(3, "GS0104");
}

#[test]
fn tasks_can_be_filtered_and_are_the_same_as_queue_ls() {
    let place = Place::new();
    for (id, queue) in [("a", "email"), ("b", "email"), ("c", "print")] {
        place.run(&["queue", "submit", "mail", "--id", id, "--queue", queue]).ok();
    }
    place.run(&["queue", "claim", "--owner", "w-1", "--queue", "email"]).ok();
    assert_eq!(place.run(&["tasks", "-q"]).ok(), "a\nb\nc\n");
    assert_eq!(place.run(&["tasks", "-q", "--owner", "w-1"]).ok(), "a\n");
    assert_eq!(place.run(&["tasks", "-q", "--queue", "email", "--state", "ready"]).ok(), "b\n");
    assert_eq!(place.run(&["tasks", "-q", "--run", "ord-1"]).ok(), "");
    assert_eq!(place.run(&["tasks"]).ok(), place.run(&["queue", "ls"]).ok());
    assert!(!place.run(&["queue", "--help"]).ok().contains("  ls "), "one name in the help");
}

#[test]
fn why_explains_several_runs() {
    let place = prepared();
    let one = place.run(&["why", "waits", "--json"]).json();
    assert_eq!(one["run"], "waits", "a single run gives a single document");
    let ran = place.run(&["why", "waits", "missing", "asks", "--json"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&list["items"][0]["run"], &list["items"][1]["run"]), (&"waits".into(), &"asks".into()));
    assert_eq!(
        (&list["errors"][0]["run"], &list["errors"][0]["code"]),
        (&"missing".into(), &"GS0104".into())
    );
    let text = place.run(&["why", "waits", "missing", "asks"]);
    assert!(text.out.contains("waits (waiting)") && text.out.contains("\n\nasks (waiting)"), "{}", text.out);
    assert!(text.err.starts_with("error[GS0104]"), "{}", text.err);
    let mut child =
        place.command(&["why", "-", "--jsonl"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"waits\nasks\nwaits\n").unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!(ran.ok().lines().count(), 2, "a run is explained once");
    let failed = place.run(&["why", "--status", "failed,waiting", "--limit", "2", "--json"]).json();
    assert_eq!((failed["items"].as_array().unwrap().len(), &failed["more"]), (2, &true.into()));
    assert_eq!(place.run(&["why"]).code, 2);
    assert_eq!(place.run(&["why", "--status", "parked", "--json"]).json()["items"], serde_json::json!([]));
}

#[test]
fn ls_shows_the_error_of_a_step_that_is_retried() {
    let place = Place::new();
    block(async {
        async fn flaky(ctx: Context, _: ()) -> goldseam::Result<()> {
            let charge =
                ctx.step("charge", || async { Err::<(), _>(Error::retryable("the bank answered 503")) });
            charge.retry(Retry::fixed(std::time::Duration::from_secs(3_600)).attempts_max(3)).await
        }
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("flaky", flaky).start().await.unwrap();
        engine.start_with("flaky", "f-1", &(), StartOptions::default()).await.unwrap();
        crate::support::reaches(engine.client(), "f-1", goldseam::Status::Sleeping).await;
        engine.shutdown().await;
    });
    let text = place.run(&["ls"]).ok();
    assert!(text.contains("retries charge after attempt 1: the bank answered 503"), "{text}");
}

#[test]
fn mistyped_names_get_suggestions() {
    let place = prepared();
    let err = place.run(&["show", "waitz"]).fails(3, "GS0104");
    assert!(err.contains("help: did you mean waits? goldseam ls lists"), "{err}");
    assert!(place.run(&["why", "WAITS"]).fails(3, "GS0104").contains("did you mean waits?"));
    assert!(!place.run(&["show", "something-else"]).fails(3, "GS0104").contains("did you mean"));
    for (url, meant) in [
        ("sqllite:goldseam.db", "did you mean sqlite:goldseam.db?"),
        ("goldseam.db", "did you mean sqlite:goldseam.db?"),
        ("postgre://ada:hush@h/d", "did you mean postgres://ada:"),
    ] {
        let err = place.run(&["ls", "--store", url]).fails(2, "GS0206");
        assert!(err.contains(meant) && !err.contains("hush"), "{url}: {err}");
    }
    let err = place.run(&["ls", "--store", "sqlite:goldsem.db"]);
    assert!(err.err.contains("did you mean sqlite:goldseam.db?"), "{}", err.err);
    with_engine(&place, || {
        let ran = place.run(&["start", "oder", "--id", "typo-1"]);
        assert_eq!(ran.code, 0);
        assert!(ran.err.contains("did you mean order?"), "{}", ran.err);
    });
}

/// The candidates of the completion, as the scripts ask for them.
fn candidates(place: &Place, words: &[&str]) -> Vec<String> {
    let out = place.run(&[&["__complete", "--"], words].concat()).ok();
    out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn completion_offers_names_of_the_store() {
    let place = prepared();
    place.run(&["queue", "submit", "mail", "--id", "t-1", "--queue", "email"]).ok();
    assert_eq!(candidates(&place, &["show", "w"]), ["waits"]);
    assert_eq!(candidates(&place, &["why", "waits", ""]), ["asks", "failed", "done"]);
    assert_eq!(candidates(&place, &["ls", "--workflow", ""]), ["order"]);
    assert_eq!(candidates(&place, &["ls", "--tag", "reg"]), ["region=eu"]);
    assert_eq!(candidates(&place, &["ls", "--cause", ""]).len(), 1);
    assert_eq!(candidates(&place, &["start", "or"]), ["order"]);
    assert_eq!(candidates(&place, &["jump", "done", "ch"]), ["charge"]);
    assert_eq!(candidates(&place, &["answer", "asks", ""]), ["review"]);
    assert_eq!(candidates(&place, &["signal", "waits", ""]), ["paid"]);
    assert_eq!(candidates(&place, &["tasks", "--queue", "e"]), ["email"]);
    assert_eq!(candidates(&place, &["doctor", "--rule", "worker"]), ["worker-lost"]);
    assert_eq!(candidates(&place, &["doctor", "--rule=worker"]), ["--rule=worker-lost"]);
    assert_eq!(candidates(&place, &["explain", "worker"]), ["worker-lost"]);
    assert_eq!(candidates(&place, &["ls", "--status", "fa"]), ["failed"]);
    assert_eq!(candidates(&place, &["workf"]), ["workflows"]);
    assert_eq!(candidates(&place, &["queue", "sub"]), ["submit"]);
    assert!(candidates(&place, &["doctor", "--"]).contains(&"--limit".to_owned()));
    assert!(!candidates(&place, &[""]).iter().any(|name| name.starts_with("__") || name == "demo-worker"));
}

#[test]
fn completion_is_silent_and_creates_nothing_without_a_store() {
    let place = Place::new();
    for words in [
        &["show", ""][..],
        &["--store", "nonsense", "show", ""],
        &["jump", "a/b", ""],
        &["--server", "http://127.0.0.1:1", "show", ""],
        &["nonsense", "--what", ""],
    ] {
        let ran = place.run(&[&["__complete", "--"], words].concat());
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{words:?}");
    }
    assert_eq!(place.files(), Vec::<String>::new());
}

#[test]
fn bash_completes_run_ids_with_the_generated_script() {
    let place = prepared();
    std::fs::write(place.path("goldseam.bash"), place.run(&["completions", "bash"]).ok()).unwrap();
    let binary = env!("CARGO_BIN_EXE_goldseam");
    let complete = |line: &str| {
        let script = format!(
            "source ./goldseam.bash\nCOMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\nCOMP_LINE='{line}'\n\
             COMP_POINT=${{#COMP_LINE}}\n_goldseam '{binary}' '' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut command = std::process::Command::new("bash");
        command.args(["--norc", "-c", &script]).current_dir(place.path(""));
        command.env_remove("GOLDSEAM_STORE").env_remove("GOLDSEAM_SERVER");
        Ran::of(&command.output().unwrap()).ok()
    };
    assert_eq!(complete("goldseam show wa"), "waits\n");
    assert_eq!(complete("goldseam why waits a"), "asks\n");
    assert_eq!(complete("goldseam doctor --rule=worker-l"), "worker-lost\n");
    assert_eq!(complete("goldseam --store sqlite:goldseam.db show do"), "done\n");
    assert_eq!(complete("goldseam --store sqlite:nothing.db show do"), "\n");
    assert!(!place.path("nothing.db").exists());
}

/// The folder of the binary before the other folders of `PATH`.
fn path_with_binary() -> std::ffi::OsString {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_goldseam"));
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(binary.parent().unwrap().to_owned()).chain(std::env::split_paths(&others));
    std::env::join_paths(folders).unwrap()
}

/// A shell in the folder of the store, without the settings of its user.
fn shell(place: &Place, program: &std::path::Path, args: &[&str]) -> String {
    let mut command = std::process::Command::new(program);
    command
        .args(args)
        .current_dir(place.path(""))
        .env("PATH", path_with_binary())
        .env("HOME", place.path(""));
    command.env("TERM", "dumb").env_remove("GOLDSEAM_STORE").env_remove("GOLDSEAM_SERVER");
    Ran::of(&command.output().unwrap()).ok()
}

#[test]
fn fish_completes_run_ids_with_the_generated_script() {
    let place = prepared();
    let fish = goldseam_testbed::shells::fish().unwrap();
    std::fs::write(place.path("goldseam.fish"), place.run(&["completions", "fish"]).ok()).unwrap();
    let complete = |line: &str| {
        let script = format!("source ./goldseam.fish; complete -C '{line}'");
        let found = shell(&place, &fish, &["--no-config", "-c", &script]);
        let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        found.lines().map(word).collect::<Vec<_>>()
    };
    assert_eq!(complete("goldseam show wa"), ["waits"]);
    assert_eq!(complete("goldseam why waits a"), ["asks"]);
    assert_eq!(complete("goldseam doctor --rule worker-l"), ["worker-lost"]);
    assert_eq!(complete("goldseam --store sqlite:nothing.db show do"), Vec::<String>::new());
    assert!(!place.path("nothing.db").exists());
}

/// Types a line into an interactive zsh, presses Tab, and prints the line that results.
const ZSH_TAB: &str = r#"zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; print REA''DY"
zpty -r z out $'*READY\r*'
zpty -w -n z "$1"$'\t'
zpty -w -n z $'\C-aprint -r -- "<'
zpty -w -n z $'\C-e>"\n'
zpty -r z out $'*<goldseam*>\r*'
out="${out##*$'\n'<}"
print -r -- "${out%%>*}"
zpty -d z
"#;

#[test]
fn zsh_completes_run_ids_with_the_generated_script() {
    let place = prepared();
    let zsh = goldseam_testbed::shells::zsh().unwrap();
    std::fs::write(place.path("_goldseam"), place.run(&["completions", "zsh"]).ok()).unwrap();
    std::fs::write(place.path("tab.zsh"), ZSH_TAB).unwrap();
    let complete = |line: &str| shell(&place, &zsh, &["-f", "tab.zsh", line]).trim().to_owned();
    assert_eq!(complete("goldseam show wa"), "goldseam show waits");
    assert_eq!(complete("goldseam why waits a"), "goldseam why waits asks");
    assert_eq!(complete("goldseam doctor --rule worker-l"), "goldseam doctor --rule worker-lost");
}

#[test]
fn a_run_is_shown_as_it_was_at_an_event() {
    let place = prepared();
    let first = place.run(&["show", "done", "--at", "1", "--json"]).json();
    assert_eq!((&first["status"], &first["as_of"]), (&"queued".into(), &1.into()));
    assert!(place.run(&["show", "done", "--at", "1"]).ok().contains("status\tqueued\n"));
    let beyond = place.run(&["show", "done", "--at", "9999"]);
    assert!(beyond.code != 0 && beyond.err.contains("GS0626"), "{}", beyond.err);
    let now = place.run(&["show", "done", "--json"]).json();
    let attempts = |step: &Value| step["spans"].as_array().is_some_and(|spans| !spans.is_empty());
    assert!(now["steps"].as_array().unwrap().iter().all(attempts), "{now}");
}

#[test]
fn activity_counts_runs_by_interval() {
    let place = prepared();
    let activity = place.run(&["activity", "--json"]).json();
    let sum = |field: &str| {
        let intervals = activity["intervals"].as_array().unwrap();
        intervals.iter().map(|interval| interval[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("started"), sum("completed"), sum("failed")), (4, 1, 1), "{activity}");
    assert!(place.run(&["activity", "--since", "5m"]).ok().starts_with("FROM\tSTARTED\t"));
    let wrong = place.run(&["activity", "--since", "9d", "--interval", "1s"]);
    assert!(wrong.code != 0 && wrong.err.contains("GS0627"), "{}", wrong.err);
}
