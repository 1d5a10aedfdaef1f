//! Help texts, code pages and completions.

use crate::support::Place;

/// Every command, and what its help must contain.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["demo"], "--kills <K>"),
    (&["drill"], "Exit code 1 if a fault was not healed"),
    (&["start"], "--input <JSON>"),
    (&["ls"], "--since <SPAN>"),
    (&["show"], "goldseam show ord-7"),
    (&["history"], "--follow"),
    (&["watch"], "Exit code 5"),
    (&["signal"], "--data <JSON>"),
    (&["request"], "--timeout <SPAN>"),
    (&["published"], "goldseam published imp-3 progress"),
    (&["answer"], "<QUESTION>"),
    (&["pause"], "--reason <REASON>"),
    (&["resume"], "--reason <REASON>"),
    (&["recover"], "--dry-run"),
    (&["requeue"], "--reason <REASON>"),
    (&["reset"], "--reason <REASON>"),
    (&["why"], "goldseam why ord-7"),
    (&["doctor"], "--rule <RULE>"),
    (&["nodes"], "--all"),
    (&["workflows"], "LAST ERROR"),
    (&["questions"], "--workflow <WORKFLOW>"),
    (&["tasks"], "--owner <OWNER>"),
    (&["recoveries"], "--stats"),
    (&["activity"], "--interval <SPAN>"),
    (&["failures"], "--since <SPAN>"),
    (&["operation"], "goldseam history ID shows its log"),
    (&["operation", "watch"], "Ctrl-C never stops"),
    (&["sweeper"], "--foreign-queue <QUEUE>"),
    (&["cancel"], "--reason <REASON>"),
    (&["terminate"], "Try goldseam cancel first"),
    (&["withdraw"], "--cancel"),
    (&["jump"], "--drop-mail"),
    (&["retry"], "failed step"),
    (&["preflight"], "20 a run would park or fail"),
    (&["migrate"], "--to-version <VERSION>"),
    (&["branches"], "<RUN>"),
    (&["diff"], "<LEFT> <RIGHT>"),
    (&["queue"], "heartbeat"),
    (&["queue", "submit"], "--lane <LANE>"),
    (&["queue", "claim"], "--owner <OWNER>"),
    (&["queue", "reclaim"], "--older-than <SPAN>"),
    (&["queue", "stats"], "Exit code 1 if a record contradicts itself"),
    (&["lock"], "extend"),
    (&["lock", "stale"], "A node that is only silent"),
    (&["lock", "acquire"], "--ttl <SPAN>"),
    (&["store"], "migrate"),
    (&["store", "check"], "changes nothing"),
    (&["store", "move"], "continue an interrupted move"),
    (&["store", "reopen"], "remaining effect happens twice"),
    (&["store", "backup"], "stays in use"),
    (&["store", "restore"], "--verify-only"),
    (&["explain"], "goldseam explain GS0104"),
    (&["completions"], "bash"),
    (&["version"], "Usage"),
    (&["exit-codes"], "Usage"),
];

#[test]
fn every_command_has_help() {
    let place = Place::new();
    let whole = place.run(&["--help"]).ok();
    for (command, part) in COMMANDS {
        let long = place.run(&[command, &["--help"][..]].concat()).ok();
        assert!(long.contains(part) && long.contains("--store <URL>"), "{command:?}: {long}");
        let brief = place.run(&[command, &["-h"][..]].concat()).ok();
        assert!(brief.lines().count() <= long.lines().count(), "{command:?}");
        assert!(whole.contains(&format!("  {} ", command[0])), "{command:?} is not listed");
    }
    assert!(!whole.contains("demo-worker"), "the hidden command is hidden");
    assert!(whole.contains("goldseam exit-codes"));
    assert!(place.files().is_empty(), "help creates no files");
}

#[test]
fn without_a_command_the_help_is_printed() {
    let ran = Place::new().run(&[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("The first five minutes"), "{}", ran.err);
}

#[test]
fn every_code_page_names_only_existing_commands() {
    let place = Place::new();
    let known = place.run(&["--help"]).ok();
    let list = place.run(&["explain", "--json"]).json();
    let codes = list["items"].as_array().unwrap();
    assert!(codes.len() >= 29);
    for item in codes {
        let code = item["code"].as_str().unwrap();
        let page = place.run(&["explain", code]).ok();
        assert!(page.starts_with(&format!("# {code}: ")), "{page}");
        for words in page.lines().filter_map(|line| line.strip_prefix("    goldseam ")) {
            let verb = words.split_whitespace().next().unwrap();
            assert!(known.contains(&format!("\n  {verb} ")), "{code} names `goldseam {verb}`");
        }
    }
}

#[test]
fn an_unknown_code_gets_suggestions() {
    let ran = Place::new().run(&["explain", concat!("GS", "0199")]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("help: did you mean GS01"), "{}", ran.err);
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.run(&["completions", shell]).ok();
        let asks = script.contains("goldseam __complete -- ") || script.contains(" __complete -- ");
        assert!(script.contains("goldseam") && (asks || script.contains("branches")), "{shell}");
        assert_eq!(asks, ["bash", "zsh", "fish"].contains(&shell), "{shell}");
    }
}

#[test]
fn version_and_exit_codes_support_json() {
    let place = Place::new();
    assert_eq!(place.run(&["version", "--json"]).json()["name"], "goldseam");
    let codes = place.run(&["exit-codes", "--json"]).json();
    let numbers: Vec<u64> =
        codes["items"].as_array().unwrap().iter().map(|item| item["code"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21, 130, 143]);
    assert!(place.run(&["exit-codes"]).ok().contains("8\tthe wait timed out"));
}
