//! Follows the guide for new users: compiles and runs its programs, and every command beside them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::guides::{check, matches};
use crate::support::{Place, eventually};

const GUIDE: &str = include_str!("../../../../docs/guides/getting-started.md");

#[expect(clippy::print_stdout, reason = "a program of the guide")]
mod first {
    include!("../../../../examples/getting_started/first.rs");

    #[test]
    #[ignore = "started by the test of the guide"]
    fn program() {
        main().unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "a program of the guide")]
mod shop {
    include!("../../../../examples/getting_started/shop.rs");

    #[test]
    #[ignore = "started by the test of the guide"]
    fn program() {
        main().unwrap();
    }
}

const PROGRAMS: [(&str, &str); 2] = [
    ("first", include_str!("../../../../examples/getting_started/first.rs")),
    ("shop", include_str!("../../../../examples/getting_started/shop.rs")),
];

/// Longer than any line takes on a busy machine.
const LINE_WITHIN: Duration = Duration::from_secs(120);

/// A running program of the guide.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts a test of this binary, as `cargo run` or `cargo test` would start the reader's program.
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(args).current_dir(place.path(".")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::Builder::new()
            .spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))))
            .unwrap();
        Self { child, lines }
    }

    /// Waits until the program has printed these lines, in this order.
    fn shows(&self, wanted: &[&str]) {
        for wanted in wanted {
            let mut seen = Vec::new();
            loop {
                let line = self.lines.recv_timeout(LINE_WITHIN);
                let line = line.unwrap_or_else(|_| panic!("the program did not print {wanted}: {seen:?}"));
                if matches(&line, wanted) {
                    break;
                }
                seen.push(line);
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// The blocks of one language, each as its lines.
fn blocks<'a>(guide: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let open = format!("```{language}");
    let mut blocks = Vec::new();
    let mut inside = false;
    for line in guide.lines() {
        match line {
            line if line == open => {
                inside = true;
                blocks.push(Vec::new());
            }
            "```" => inside = false,
            line if inside => blocks.last_mut().unwrap().push(line),
            _ => {}
        }
    }
    blocks
}

/// A command with the lines shown below it; the first entry of a block without a command has none.
fn commands<'a>(block: &[&'a str]) -> Vec<(Option<&'a str>, Vec<&'a str>)> {
    let mut commands: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
    for line in block {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((Some(command), Vec::new())),
            None if commands.is_empty() => commands.push((None, vec![line])),
            None => commands.last_mut().unwrap().1.push(line),
        }
    }
    commands
}

#[test]
fn guide_getting_started_shows_the_programs_it_runs() {
    let shown = blocks(GUIDE, "rust,no_run");
    assert_eq!(shown.len(), PROGRAMS.len());
    for (block, (_, program)) in shown.iter().zip(PROGRAMS) {
        assert_eq!(*block, program.lines().collect::<Vec<_>>());
    }
}

#[test]
fn guide_getting_started_matches() {
    let place = Place::new();
    let mut current = PROGRAMS.into_iter().map(|(name, _)| name);
    let mut program = "";
    let mut running: Option<Program> = None;
    let mut count = 0;
    for section in GUIDE.split("\n## ") {
        if !blocks(section, "rust,no_run").is_empty() {
            program = current.next().unwrap();
        }
        let main = format!("getting_started::{program}::program");
        let tests = format!("getting_started::{program}::tests");
        for (command, mut shown) in blocks(section, "console").iter().flat_map(|block| commands(block)) {
            count += 1;
            match command {
                None => {
                    let program = running.take().unwrap();
                    program.shows(&shown);
                    program.ends_well();
                }
                Some(command) if command.starts_with("cargo run") => {
                    let program = Program::start(&place, &["--exact", &main, "--ignored", "--nocapture"]);
                    let killed = shown.pop_if(|last| *last == "^C").is_some();
                    program.shows(&shown);
                    match (killed, command.contains("first terminal")) {
                        (true, _) => program.kill(),
                        (_, true) => running = Some(program),
                        _ => program.ends_well(),
                    }
                }
                Some("cargo test") => {
                    let program = Program::start(&place, &[&tests]);
                    program.shows(&shown);
                    program.ends_well();
                }
                // A reader looks again until the running program has come so far.
                Some(command) if running.is_some() && !shown.is_empty() => {
                    eventually(command, || check(&place, command, &shown).ok());
                }
                Some(command) => check(&place, command, &shown).unwrap(),
            }
        }
    }
    assert!(running.is_none() && count >= 11, "{count}");
}
