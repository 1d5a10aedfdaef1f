//! `cargo xtask disk`: the long search for data that a failing disk or a power loss could destroy.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::tree;

const SEARCH: &str = "disk::search::the_long_search_finds_nothing_lost";
/// Options and the variables that the search reads them from.
const OPTIONS: &[(&str, &str)] =
    &[("--seeds", "GOLDSEAM_DISK_SEEDS"), ("--from", "GOLDSEAM_DISK_FROM"), ("--step", "GOLDSEAM_DISK_STEP")];

/// Runs the search; its last line is the record.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree::root()?).args(["test", "--quiet", "--package", "goldseam-cli", "--test", "it"]);
    command.args(["--", "--ignored", "--nocapture", "--exact", SEARCH]);
    for pair in args.chunks(2) {
        let [option, value] = pair else { return Err(format!("{} needs a number", pair[0])) };
        let known = OPTIONS.iter().find(|(name, _)| name == option);
        let (_, variable) = known.ok_or_else(|| format!("unknown option {option}"))?;
        let number: u64 = value.parse().map_err(|_| format!("{option} {value}: not a number"))?;
        command.env(variable, number.to_string());
    }
    let cannot = |error: std::io::Error| format!("cannot run cargo: {error}");
    let mut search = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let output = search.stdout.take().ok_or("the search has no output")?;
    let mut record = None;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(cannot)?;
        match line.starts_with("record: ") {
            true => record = Some(line),
            false => println!("{line}"),
        }
    }
    let status = search.wait().map_err(cannot)?;
    println!("{}", record.ok_or("the search ended without a record")?);
    if status.success() {
        Ok(())
    } else {
        Err("the search found a loss; see the lines with `wrong`".to_owned())
    }
}
