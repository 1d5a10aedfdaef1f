//! `cargo xtask record`: runs a long search and appends its counts to the record; the page is generated from it.
//!
//! A search prints `record: key=value key=value …` as its last line. That line, the command, the date and the commit
//! become one line of `docs/record/runs.tsv`. Lines are never removed.

mod kinds;
mod scores;
mod seeds;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use crate::finding::Finding;
use crate::tree::{self, Tree};

/// Every recorded run of a search: date, commit, kind, seconds, command, counts.
const RUNS: &str = "docs/record/runs.tsv";
/// Every bug that a search found: date, search, how to reproduce it, description.
const BUGS: &str = "docs/record/bugs.tsv";
/// The text before the tables.
const INTRO: &str = "docs/record/intro.md";
/// The generated page.
pub(crate) const PAGE: &str = "docs/record.md";

/// The prefix of a search's last line.
const MARK: &str = "record: ";

/// Runs `command` and appends its last line to the record under `kind`. The caller regenerates the page.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
pub(crate) fn run(kind: &str, command: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    let commit = git(&root, &["rev-parse", "--short", "HEAD"])?;
    let clean = git(&root, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    if !clean {
        return Err("commit first: the record names the code that was searched".to_owned());
    }
    let begin = Instant::now();
    let counts = last_line(&root, command)?;
    let seconds = begin.elapsed().as_secs();
    let line = format!("{}\t{commit}\t{kind}\t{seconds}\t{}\t{counts}\n", today(), command.join(" "));
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(root.join(RUNS))
        .map_err(|error| format!("{RUNS}: {error}"))?;
    file.write_all(line.as_bytes()).map_err(|error| format!("{RUNS}: {error}"))
}

/// Runs the command, prints its output, and returns the counts of its last line.
fn last_line(root: &Path, command: &[&str]) -> Result<String, String> {
    let (program, args) = command.split_first().ok_or("name a command after `--`")?;
    let mut child = Command::new(program)
        .args(args)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let mut counts = None;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(|error| format!("{program}: {error}"))?;
        println!("{line}");
        if let Some(rest) = line.strip_prefix(MARK) {
            counts = Some(rest.to_owned());
        }
    }
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("`{}` ended with {status}: nothing is recorded", command.join(" ")));
    }
    counts.ok_or_else(|| format!("`{}` printed no line that begins with `{MARK}`", command.join(" ")))
}

fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The date, in UTC.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date `days` days after 1 January 1970.
fn date(days: u64) -> String {
    // Years begin in March here, so that the leap day comes last.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// One run of a search.
struct Run<'a> {
    date: &'a str,
    commit: &'a str,
    kind: &'a str,
    seconds: u64,
    command: &'a str,
    counts: Vec<(&'a str, &'a str)>,
}

fn parse(text: &str) -> Vec<Run<'_>> {
    let run = |line| {
        let mut cells = str::split(line, '\t');
        let mut next = || cells.next().unwrap_or_default();
        let date = next();
        let commit = next();
        let kind = next();
        let seconds = next();
        let command = next();
        let counts = next().split(' ').filter_map(|count| count.split_once('=')).collect();
        Run { date, commit, kind, seconds: seconds.parse().unwrap_or(0), command, counts }
    };
    text.lines().filter(|line| !line.is_empty()).map(run).collect()
}

/// The page: totals by kind of search, bugs found, and every run of a search.
pub(crate) fn page(tree: &Tree) -> String {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let runs = parse(text(RUNS));
    let mut page = format!(
        "{}\n## In all\n\n| search | runs of it | hours | counted |\n|---|---|---|---|\n",
        text(INTRO)
    );
    let mut kinds: BTreeMap<&str, Vec<&Run<'_>>> = BTreeMap::new();
    for run in &runs {
        kinds.entry(run.kind).or_default().push(run);
    }
    for (kind, runs) in &kinds {
        let seconds: u64 = runs.iter().map(|run| run.seconds).sum();
        let hours = hours(seconds);
        let counted = sums(runs);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {kind} | {} | {hours} | {counted} |", runs.len());
    }
    page.push_str(&kinds::section(&runs, text(kinds::PLAYED)));
    page.push_str(&scores::section(&runs));
    page.push_str(
        "\n## Bugs found\n\n| date | found by | seen again with | what it was |\n|---|---|---|---|\n",
    );
    for line in text(BUGS).lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(page, "| {} |", line.replace('\t', " | "));
    }
    page.push_str("\n## Every run of a search\n\n| date | commit | search | command | seconds | counted |\n|---|---|---|---|---|---|\n");
    for Run { date, commit, kind, seconds, command, counts } in &runs {
        let counts: Vec<String> =
            counts.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
        let counts = counts.join(", ");
        let _ = writeln!(page, "| {date} | {commit} | {kind} | `{command}` | {seconds} | {counts} |");
    }
    page
}

/// Checks that the record has enough kinds of fault and explains every kept seed.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let mut findings = kinds::check(tree, &parse(text(RUNS)), text(kinds::PLAYED));
    findings.extend(seeds::check(text(seeds::KEPT), text(BUGS)));
    findings
}

/// A value for the page; the length of a list.
fn shown(value: &str) -> String {
    match value.split(',').count() {
        1 => thousands(value),
        length => length.to_string(),
    }
}

/// The sums of all numeric counts of these runs. Kinds are left out, since several runs meet the same ones.
fn sums(runs: &[&Run<'_>]) -> String {
    let mut order = Vec::new();
    let mut numbers: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, value) in runs.iter().flat_map(|run| &run.counts).filter(|(key, _)| *key != "kinds") {
        let Ok(value) = value.parse::<f64>() else { continue };
        if !order.contains(key) {
            order.push(*key);
        }
        *numbers.entry(key).or_default() += value;
    }
    let shown = |key: &&str| numbers.get(key).map(|sum| format!("{key} {}", thousands(&sum.to_string())));
    order.iter().filter_map(shown).collect::<Vec<_>>().join(", ")
}

fn hours(seconds: u64) -> String {
    format!("{}.{}", seconds / 3_600, seconds % 3_600 / 360)
}

/// A whole number in groups of three digits; other values unchanged.
fn thousands(value: &str) -> String {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.to_owned();
    }
    let mut text = String::new();
    for (index, digit) in value.chars().enumerate() {
        if index > 0 && (value.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_days_to_dates() {
        for (days, written) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_773, "2026-11-16")]
        {
            assert_eq!(date(days), written);
        }
    }

    #[test]
    fn returns_the_last_line_of_a_search() {
        let root = tree::root().unwrap();
        assert_eq!(last_line(&root, &["echo", "record: a=1 b=2"]), Ok("a=1 b=2".to_owned()));
        assert!(last_line(&root, &["echo", "nothing"]).is_err());
        assert!(last_line(&root, &["false"]).is_err());
        assert!(last_line(&root, &[]).is_err());
    }

    #[test]
    fn sums_the_counts_of_one_search() {
        let text = "2026-11-16\tabc\tsim\t60\tx\tseeds=1500 store=s3 kinds=24\n2026-11-16\tdef\tsim\t30\ty\tseeds=500\n";
        let runs = parse(text);
        assert_eq!(sums(&runs.iter().collect::<Vec<_>>()), "seeds 2,000");
    }

    #[test]
    fn groups_digits() {
        assert_eq!(thousands("1234567"), "1,234,567");
        assert_eq!(thousands("123"), "123");
        assert_eq!(thousands("1.5"), "1.5");
    }
}
