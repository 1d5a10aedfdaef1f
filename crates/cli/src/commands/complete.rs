//! `goldseam __complete`: the words that may follow on a command line, for the shell.
//!
//! The completion scripts of bash, zsh and fish call it with the words so far. It prints one candidate per line, as
//! `VALUE<tab>DESCRIPTION`. It reads at most one page of the store, never creates one, and prints nothing on an error.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command};
use goldseam::recovery::CATALOGUE;
use goldseam::{RunId, Status};
use goldseam_api::Api;
use goldseam_api::codes;
use goldseam_api::doc::PAGE_MAX;
use goldseam_api::doc::overview::{SuggestionKind, SuggestionsQuery};
use goldseam_api::doc::run::RunsQuery;
use goldseam_api::doc::task::TasksQuery;

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::options::{Color, GivenOptions, Global, STORE_DEFAULT};
use crate::{args, color, out, text};

/// How long a completion may take.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Print the candidates for the last word.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words after the program's name; the last one is incomplete
    #[arg(last = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// A candidate and its description.
type ShellCandidate = (String, String);

pub(crate) async fn run(args: &CompleteArgs) -> Result<Exit, CliError> {
    let root = args::command();
    let line = CommandWords::parse(&root, &args.words);
    let found = tokio::time::timeout(TIME_MAX, line.candidates(&root)).await.unwrap_or_default();
    for (value, description) in found {
        let value = format!("{}{value}", line.before);
        if value.starts_with(&line.current) && !value.chars().any(char::is_control) {
            out::line(format!("{value}\t{}", color::cell(&text::one_line(&description))));
        }
    }
    Ok(Exit::Ok)
}

/// A parsed command line up to the current word.
#[derive(Debug)]
struct CommandWords<'a> {
    command: &'a Command,
    /// Positional arguments before the current word.
    positional: Vec<&'a str>,
    /// Values of options before the current word.
    options: Vec<(&'a str, &'a str)>,
    /// The option whose value the current word is.
    option: Option<&'a Arg>,
    /// Whether the current word can only be a positional argument.
    only_positional: bool,
    /// The start of the current word that is not part of the value: `--rule=`.
    before: &'a str,
    current: String,
}

impl<'a> CommandWords<'a> {
    fn parse(root: &'a Command, words: &'a [String]) -> Self {
        let (last, first) = words.split_last().map_or(("", &[][..]), |(last, first)| (last.as_str(), first));
        let mut line = Self {
            command: root,
            positional: Vec::new(),
            options: Vec::new(),
            option: None,
            only_positional: false,
            before: "",
            current: last.to_owned(),
        };
        for word in first {
            line.take(root, word);
        }
        if line.option.is_none()
            && !line.only_positional
            && let Some((name, _)) = last.strip_prefix("--").and_then(|rest| rest.split_once('='))
        {
            line.option = long(line.command, root, name).filter(|arg| takes_value(arg));
            line.before = &last[..name.len() + 3];
        }
        line
    }

    /// Takes a complete word.
    fn take(&mut self, root: &'a Command, word: &'a str) {
        if let Some(option) = self.option.take() {
            self.options.push((option.get_id().as_str(), word));
            return;
        }
        if self.only_positional {
            self.positional.push(word);
        } else if word == "--" {
            self.only_positional = true;
        } else if let Some(name) = word.strip_prefix("--") {
            let (name, value) =
                name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let arg = long(self.command, root, name).filter(|arg| takes_value(arg));
            match (arg, value) {
                (Some(arg), Some(value)) => self.options.push((arg.get_id().as_str(), value)),
                (arg, _) => self.option = arg,
            }
        } else if word.len() > 1 && word.starts_with('-') {
            let last = word.chars().last();
            let is_it = |arg: &&Arg| arg.get_short() == last && takes_value(arg);
            self.option = arguments(self.command, root).find(is_it);
        } else if let Some(command) = self.command.find_subcommand(word)
            && self.positional.is_empty()
        {
            self.command = command;
        } else {
            self.positional.push(word);
        }
    }

    fn option_value(&self, id: &str) -> Option<&str> {
        self.options.iter().rev().find(|(known, _)| *known == id).map(|(_, value)| *value)
    }

    /// All candidates; the caller keeps those that fit the current word.
    async fn candidates(&self, root: &Command) -> Vec<ShellCandidate> {
        if let Some(option) = self.option {
            return self.values(option).await;
        }
        if self.current.starts_with('-') && !self.only_positional {
            return flags(self.command, root);
        }
        if self.command.has_subcommands() {
            let is_next = self.positional.is_empty();
            return if is_next { subcommands(self.command) } else { Vec::new() };
        }
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let at = self.positional.len();
        let many = all.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append)).copied();
        match all.get(at).copied().or(many) {
            Some(arg) => self.values(arg).await,
            None => Vec::new(),
        }
    }

    /// The values of an argument.
    async fn values(&self, arg: &Arg) -> Vec<ShellCandidate> {
        let id = arg.get_id().as_str();
        let fixed = match (self.command.get_name(), id) {
            (_, "rule") => CATALOGUE.iter().map(|rule| both(rule.name, rule.title)).collect(),
            ("explain", "code") => code_names(),
            (_, "status") => Status::ALL.iter().map(|status| plain(status.as_str())).collect(),
            (_, "state") => {
                ["ready", "claimed", "completed", "failed", "cancelled", "dead"].map(plain).to_vec()
            }
            _ => arg.get_possible_values().iter().map(|value| plain(value.get_name())).collect(),
        };
        if !fixed.is_empty() {
            return fixed;
        }
        self.stored(id).await.unwrap_or_default()
    }

    /// Values from the store.
    async fn stored(&self, id: &str) -> Option<Vec<ShellCandidate>> {
        let is_run = matches!(id, "run" | "runs" | "parent");
        let run = || self.positional.first().and_then(|run| RunId::new(run).ok());
        let command = self.command.get_name();
        if !is_run
            && !matches!(id, "workflow" | "tag" | "cause" | "step" | "question" | "name" | "queue" | "task")
        {
            return None;
        }
        let app = self.app();
        let api = app.api().await.ok()?;
        match id {
            _ if is_run => self.runs(&*api).await,
            "workflow" => workflows(&*api).await,
            "tag" => suggestions(&*api, SuggestionKind::Tag).await,
            "cause" => suggestions(&*api, SuggestionKind::Cause).await,
            "queue" => queues(&*api).await,
            "task" => tasks(&*api).await,
            "question" => {
                let open = api.questions_of(&run()?).await.ok()?.items;
                let both = |open: &goldseam_api::doc::run::QuestionDoc| {
                    both(open.open.input.path.as_str(), &open.open.input.prompt)
                };
                Some(open.iter().map(both).collect())
            }
            "step" => {
                let steps = api.detail(&run()?).await.ok()?.more.steps;
                Some(steps.iter().map(|step| both(&step.path, step.state.as_str())).collect())
            }
            "name" if command == "signal" => {
                let waits = api.detail(&run()?).await.ok()?.summary.waits;
                let names = waits.iter().flat_map(|wait| &wait.signals);
                Some(names.map(|name| both(name.as_str(), "the run waits for it")).collect())
            }
            _ => None,
        }
    }

    /// The newest runs, without those that the line has.
    async fn runs(&self, api: &dyn Api) -> Option<Vec<ShellCandidate>> {
        let page = api.runs(RunsQuery { limit: Some(PAGE_MAX), ..RunsQuery::default() }).await.ok()?;
        let is_new = |run: &str| !self.positional.contains(&run);
        let runs = page.items.iter().filter(|summary| is_new(summary.run.as_str()));
        let both = |summary: &goldseam::Summary| {
            both(summary.run.as_str(), &format!("{}, {}", summary.workflow, summary.status))
        };
        Some(runs.map(both).collect())
    }

    /// The store or server of the line, or of the environment.
    fn app(&self) -> App {
        let from = |id: &str, name: &str| {
            let value = self.option_value(id).map(str::to_owned);
            value.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
        };
        let global = Global {
            store: from("store", "GOLDSEAM_STORE").unwrap_or_else(|| STORE_DEFAULT.to_owned()),
            server: from("server", "GOLDSEAM_SERVER"),
            key_file: self.option_value("key_file").map(PathBuf::from),
            json: false,
            jsonl: false,
            quiet: true,
            color: Color::Never,
        };
        let is_given = |id: &str| self.option_value(id).is_some();
        App::new(&global, GivenOptions { store: is_given("store"), server: is_given("server") })
    }
}

fn plain(value: &str) -> ShellCandidate {
    (value.to_owned(), String::new())
}

fn both(value: &str, description: &str) -> ShellCandidate {
    (value.to_owned(), description.to_owned())
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The arguments of a command, and the global ones.
fn arguments<'a>(command: &'a Command, root: &'a Command) -> impl Iterator<Item = &'a Arg> {
    command.get_arguments().chain(root.get_arguments().filter(|arg| arg.is_global_set()))
}

fn long<'a>(command: &'a Command, root: &'a Command, name: &str) -> Option<&'a Arg> {
    arguments(command, root).find(|arg| arg.get_long() == Some(name))
}

fn flags(command: &Command, root: &Command) -> Vec<ShellCandidate> {
    let shown = arguments(command, root).filter(|arg| !arg.is_hide_set());
    let flag = |arg: &Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some((format!("--{}", arg.get_long()?), help))
    };
    let mut flags: Vec<ShellCandidate> = shown.filter_map(flag).collect();
    flags.push(both("--help", "Print help"));
    flags.sort();
    flags.dedup_by(|one, other| one.0 == other.0);
    flags
}

fn subcommands(command: &Command) -> Vec<ShellCandidate> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|command| (command.get_name().to_owned(), about(command))).collect()
}

/// Names and codes of rules, and codes of errors.
fn code_names() -> Vec<ShellCandidate> {
    let names = CATALOGUE.iter().map(|rule| both(rule.name, rule.title));
    names.chain(codes::all().map(|(code, page)| both(code, codes::title(code, page)))).collect()
}

async fn suggestions(api: &dyn Api, of: SuggestionKind) -> Option<Vec<ShellCandidate>> {
    let found = api.suggestions(SuggestionsQuery { of, text: None, limit: None }).await.ok()?.items;
    Some(found.iter().map(|one| both(&one.value, &text::count(one.count, "run"))).collect())
}

/// Workflows of live nodes; without any, those of the newest runs.
async fn workflows(api: &dyn Api) -> Option<Vec<ShellCandidate>> {
    let live = api.workflows().await.ok()?.items;
    if !live.is_empty() {
        let nodes = |nodes: u32| text::count(nodes.into(), "node");
        return Some(live.iter().map(|one| both(one.name.as_str(), &nodes(one.nodes))).collect());
    }
    let page = api.runs(RunsQuery { limit: Some(PAGE_MAX), ..RunsQuery::default() }).await.ok()?;
    let mut names: Vec<&str> = page.items.iter().map(|summary| summary.workflow.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Some(names.into_iter().map(|name| both(name, "no live node")).collect())
}

/// The open tasks that are first by id.
async fn tasks(api: &dyn Api) -> Option<Vec<ShellCandidate>> {
    let page = api.tasks(TasksQuery { limit: Some(PAGE_MAX), ..TasksQuery::default() }).await.ok()?;
    let is_open = |state: &str| matches!(state, "ready" | "claimed" | "dead");
    let open = page.items.iter().filter(|task| is_open(task.state.as_str()));
    Some(
        open.map(|task| both(task.id.as_str(), &format!("{}, {}", task.kind, task.state.as_str()))).collect(),
    )
}

/// The queues of the first tasks and of the newest runs.
async fn queues(api: &dyn Api) -> Option<Vec<ShellCandidate>> {
    let tasks = api.tasks(TasksQuery { limit: Some(PAGE_MAX), ..TasksQuery::default() }).await.ok()?;
    let mut names: Vec<&str> = tasks.items.iter().map(|task| task.queue.as_str()).collect();
    names.push("default");
    names.sort_unstable();
    names.dedup();
    Some(names.into_iter().map(plain).collect())
}
