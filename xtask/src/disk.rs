//! `cargo xtask disk`: the long search for what a failing disk or a power loss could cost.

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
        let (_, variable) = known.ok_or_else(|| format!("there is no option {option}"))?;
        let number: u64 = value.parse().map_err(|_| format!("{option} {value}: not a number"))?;
        command.env(variable, number.to_string());
    }
    let cannot = |error: std::io::Error| format!("cargo cannot be run: {error}");
    let mut search = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let said = search.stdout.take().ok_or("the search says nothing")?;
    let mut record = None;
    for line in BufReader::new(said).lines() {
        let line = line.map_err(cannot)?;
        match line.starts_with("record: ") {
            true => record = Some(line),
            false => println!("{line}"),
        }
    }
    let status = search.wait().map_err(cannot)?;
    println!("{}", record.ok_or("the search came to no end")?);
    if status.success() {
        Ok(())
    } else {
        Err("the search found something; see the lines with `wrong`".to_owned())
    }
}
