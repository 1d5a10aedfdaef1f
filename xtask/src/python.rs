//! `cargo xtask python`: builds the Python package, installs it into a folder of its own, and runs its checks.
//!
//! The tools come from PyPI and npm in the exact versions of the lists in `xtask/python`. mypy and pyright check the types
//! of the package, and of a program as users write it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use goldseam_testbed::packages::{self, Python};

use crate::servers::{Servers, Which};
use crate::{cargo, tree};

const USAGE: &str = "cargo xtask python [--wheel [--target TRIPLE]] [--long] [PYTEST ARGS]";
/// A program as the guide shows it, for the wheel alone.
const FIRST_WORKFLOW: &str = "
import goldseam as gs
@gs.step
def greet(name: str) -> str:
    return f'hello {name}'
@gs.workflow
def hello(name: str) -> str:
    return greet(name)
with gs.open('sqlite:hello.db', workflows=[hello]) as engine:
    assert engine.start(hello, 'Kyoto', id='hello-1').result(60) == 'hello Kyoto'
";
/// Kills of workers in the long form; a quarter of them on Postgres.
const KILLS_LONG: &str = "200";

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Order {
    /// Only builds the wheel for distribution: optimised, with the command inside.
    wheel: bool,
    /// The platform of that wheel, if not this one.
    target: Option<String>,
    /// Kills many workers, on Postgres too.
    long: bool,
    pytest: Vec<String>,
}

impl Order {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut order = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            match *word {
                "--wheel" => order.wheel = true,
                "--target" => order.target = Some((*words.next()?).to_owned()),
                "--long" => order.long = true,
                "--help" | "-h" => return None,
                other => order.pytest.push(other.to_owned()),
            }
        }
        (order.wheel || order.target.is_none()).then_some(order)
    }
}

/// The folders of a build.
struct Ground {
    root: PathBuf,
    /// `sdk/python`.
    sdk: PathBuf,
    /// Where cargo builds.
    target: PathBuf,
    tools: Python,
}

/// `cargo xtask python`.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let order = Order::parse(args).ok_or(USAGE)?;
    let ground = Ground::prepare()?;
    if order.wheel {
        return ground.distribute(order.target.as_deref());
    }
    let (site, wheel) = ground.install()?;
    ground.check_types()?;
    let servers = order.long.then(|| Servers::start(Which::All)).transpose()?;
    let mut variables: Vec<(String, OsString)> = vec![("GOLDSEAM_WHEEL".to_owned(), wheel.into())];
    if let Some(servers) = &servers {
        variables.extend(servers.variables().into_iter().map(|(name, url)| (name.to_owned(), url.into())));
        variables.push(("GOLDSEAM_KILLS".to_owned(), KILLS_LONG.into()));
    }
    ground.pytest(&site, &order.pytest, &variables)
}

/// The form of `cargo xtask test`: every test, with few kills.
pub(crate) fn quick() -> Result<(), String> {
    run(&[])
}

impl Ground {
    fn prepare() -> Result<Self, String> {
        let root = tree::root()?;
        let list = root.join("xtask/python/requirements.txt");
        let list = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        let tools = packages::python("python-sdk", &list).map_err(|error| error.to_string())?;
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { sdk: root.join("sdk/python"), root, target, tools })
    }

    /// A module of the tools.
    fn module(&self, name: &str) -> Command {
        let mut command = Command::new(&self.tools.program);
        command.args(["-m", name]).current_dir(&self.sdk);
        command.env("PYTHONPATH", &self.tools.modules).env("PYTHONNOUSERSITE", "1");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Programs that the wheel carries; empty in the form for tests.
    fn scripts(&self) -> PathBuf {
        self.sdk.join("data/scripts")
    }

    /// Builds a wheel into `to` and returns its path.
    fn wheel(&self, profile: &str, target: Option<&str>, to: &Path) -> Result<PathBuf, String> {
        let _ = std::fs::remove_dir_all(to);
        let scripts = self.scripts();
        std::fs::create_dir_all(&scripts).map_err(|error| format!("{}: {error}", scripts.display()))?;
        // Its module searches the program beside the interpreter only.
        let mut build = Command::new(self.tools.modules.join("bin/maturin"));
        build.current_dir(&self.sdk);
        build.args(["build", "--quiet", "--profile", profile, "--out"]).arg(to);
        match target {
            // The module works with every interpreter since its oldest one, so none of that platform is needed.
            Some(target) => build.args(["--target", target]),
            None => build.arg("--interpreter").arg(&self.tools.program),
        };
        build.env("CARGO_TARGET_DIR", &self.target);
        succeed(&mut build, "maturin")?;
        let entries = std::fs::read_dir(to).map_err(|error| format!("{}: {error}", to.display()))?;
        let mut wheels = entries.filter_map(Result::ok).map(|entry| entry.path());
        let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
        wheels.find(is_wheel).ok_or_else(|| format!("maturin left no wheel in {}", to.display()))
    }

    /// Builds the package and the command, and installs the package into a folder. Returns the folder and the wheel.
    fn install(&self) -> Result<(PathBuf, PathBuf), String> {
        cargo::build_test_binary(&self.root)?;
        let folder = self.target.join("python");
        let wheel = self.wheel("dev", None, &folder.join("wheels"))?;
        let site = folder.join("site");
        let _ = std::fs::remove_dir_all(&site);
        let mut pip = self.module("pip");
        pip.args(["install", "--quiet", "--no-deps", "--no-index", "--target"]).arg(&site).arg(&wheel);
        pip.env_remove("PYTHONPATH");
        succeed(&mut pip, "pip")?;
        Ok((site, wheel))
    }

    fn check_types(&self) -> Result<(), String> {
        for what in [&[][..], &["--strict", "tests/typing/sample.py"]] {
            let mut mypy = self.module("mypy");
            mypy.args(what).arg("--no-error-summary");
            mypy.arg("--cache-dir").arg(self.target.join("python/mypy"));
            succeed(&mut mypy, "mypy")?;
        }
        let lists = self.root.join("xtask/python");
        let node = packages::node("python-sdk", &lists).map_err(|error| error.to_string())?;
        for project in [".", "tests/typing"] {
            let mut pyright = Command::new(node.join("node_modules/.bin/pyright"));
            pyright.args(["--project", project, "--pythonpath"]).arg(&self.tools.program);
            pyright.current_dir(&self.sdk).env("PYTHONPATH", &self.tools.modules);
            succeed(&mut pyright, "pyright")?;
        }
        Ok(())
    }

    fn pytest(&self, site: &Path, args: &[String], variables: &[(String, OsString)]) -> Result<(), String> {
        let mut path = site.as_os_str().to_owned();
        path.push(":");
        path.push(&self.tools.modules);
        let mut pytest = self.module("pytest");
        pytest.args(["-p", "no:cacheprovider"]).args(args).env("PYTHONPATH", path);
        pytest.env("GOLDSEAM_BIN", self.target.join("debug/goldseam"));
        pytest.envs(variables.iter().map(|(name, value)| (name, value)));
        succeed(&mut pytest, "pytest")
    }

    /// Builds the wheel for distribution, which carries the command, and the one without an engine for platforms that
    /// have none. Tries the first one in an environment of its own, and prints the sizes.
    fn distribute(&self, target: Option<&str>) -> Result<(), String> {
        let platform = target.map(|target| format!(" --target {target}")).unwrap_or_default();
        cargo::run(&self.root, &format!("build --profile dist --package goldseam-cli{platform}"), &[])?;
        let scripts = self.scripts();
        let cannot = |error: std::io::Error| format!("{}: {error}", scripts.display());
        std::fs::create_dir_all(&scripts).map_err(cannot)?;
        let built = self.target.join(target.unwrap_or_default()).join("dist/goldseam");
        std::fs::copy(built, scripts.join("goldseam")).map_err(cannot)?;
        let folder = self.target.join("python");
        let wheel = self.wheel("dist", target, &folder.join("dist"));
        std::fs::remove_file(scripts.join("goldseam")).map_err(cannot)?;
        let wheel = wheel?;
        if target.is_none() {
            self.try_out(&wheel, &folder.join("fresh"))?;
        }
        let mut pure = Command::new(&self.tools.program);
        pure.arg(self.sdk.join("tools/pure.py")).arg(&wheel).arg(folder.join("dist"));
        succeed(&mut pure, "pure.py")?;
        let bytes = wheel.metadata().map_err(cannot)?.len();
        println!("{}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
        Ok(())
    }

    /// The first minute of a user: installs the wheel into a fresh environment, runs the command and a workflow.
    fn try_out(&self, wheel: &Path, fresh: &Path) -> Result<(), String> {
        let _ = std::fs::remove_dir_all(fresh);
        let mut venv = Command::new(&self.tools.program);
        venv.args(["-m", "venv"]).arg(fresh);
        succeed(&mut venv, "venv")?;
        let bin = fresh.join("bin");
        let run = |program: &str, args: &[&str]| {
            let mut command = Command::new(bin.join(program));
            command.args(args).current_dir(fresh).env_remove("PYTHONPATH");
            succeed(&mut command, program)
        };
        run("pip", &["install", "--quiet", "--no-index", &wheel.display().to_string()])?;
        run("goldseam", &["demo"])?;
        run("python", &["-m", "goldseam", "--version"])?;
        run("python", &["-c", FIRST_WORKFLOW])
    }
}

fn succeed(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_arguments_are_for_pytest() {
        let order = Order::parse(&["--long", "-k", "native"]).unwrap();
        assert_eq!((order.long, order.wheel, order.pytest.join(" ")), (true, false, "-k native".to_owned()));
        assert_eq!(Order::parse(&["--help"]), None);
        assert_eq!(Order::parse(&["--target", "x"]), None);
        assert_eq!(Order::parse(&["--wheel", "--target", "x"]).unwrap().target.as_deref(), Some("x"));
    }
}
