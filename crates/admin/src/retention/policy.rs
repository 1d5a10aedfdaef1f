//! Retention policies: how long runs are kept after they ended, by workflow and outcome. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use goldseam_core::operation::is_operation;
use goldseam_core::{IdError, Status, WorkflowName};

/// Shortest time for which a policy keeps a run.
pub const KEEP_MIN: Duration = Duration::from_secs(3_600);
/// The word for a policy that keeps runs without limit.
const FOREVER: &str = "forever";
/// The units of a time, in seconds, the largest first.
const UNITS: [(&str, u64); 4] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60)];
/// Longest part of a refused text in an error.
const SHOWN_MAX: usize = 80;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionOutcome {
    /// It returned a result.
    Completed,
    /// It returned an error, or a rule ended it.
    Failed,
    /// An operator or a caller cancelled or terminated it.
    Cancelled,
}

impl RetentionOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the status of runs that ended so.
    pub fn status(self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Failed => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }

    /// Returns how a run with this status ended; none if it has not ended.
    pub fn of(status: Status) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.status() == status)
    }
}

impl fmt::Display for RetentionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status().as_str())
    }
}

/// How long runs of one workflow, or of any, are kept after they ended in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Only runs of this workflow; none: of every workflow without a policy of its own.
    pub workflow: Option<WorkflowName>,
    /// Only runs that ended so.
    pub outcome: RetentionOutcome,
    /// Time since the end of a run after which it is pruned, at least [`KEEP_MIN`]; none: never.
    pub keep: Option<Duration>,
}

/// A set of retention policies, at most one for each workflow and outcome. Empty: nothing is pruned.
///
/// As text, policies are separated by commas. A policy of one workflow begins with its name and `:`. Times have one
/// unit: `m`, `h`, `d` or `w`.
///
/// ```
/// use goldseam_admin::retention::RetentionPolicies;
///
/// let policies: RetentionPolicies = "completed=7d, failed=90d, order:completed=forever".parse().unwrap();
/// assert_eq!(policies.to_string(), "completed=7d,failed=90d,order:completed=forever");
/// assert_eq!("completed=1s".parse::<RetentionPolicies>().unwrap_err().code(), "GS0151");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionPolicies {
    keeps: BTreeMap<(Option<WorkflowName>, RetentionOutcome), Option<Duration>>,
}

/// The reason why a retention policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid retention policy {policy:?}: {reason}")]
pub struct PolicyError {
    /// The refused text, shortened.
    pub policy: String,
    /// The rule that it breaks.
    pub reason: String,
}

impl PolicyError {
    /// What to write instead.
    pub const HINT: &'static str = "write OUTCOME=TIME or WORKFLOW:OUTCOME=TIME, as in completed=7d, \
        failed=90d, order:failed=26w; a time is at least 1h, or forever";

    fn new(policy: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self { policy: policy.to_string().chars().take(SHOWN_MAX).collect(), reason: reason.into() }
    }

    /// Returns the code of its page.
    pub fn code(&self) -> &'static str {
        "GS0151"
    }
}

impl RetentionPolicies {
    /// Checks the policies. Refuses a time below [`KEEP_MIN`] and two policies for the same runs.
    pub fn new(policies: impl IntoIterator<Item = RetentionPolicy>) -> Result<Self, PolicyError> {
        let mut keeps = BTreeMap::new();
        for policy in policies {
            if policy.keep.is_some_and(|keep| keep < KEEP_MIN) {
                return Err(PolicyError::new(&policy, "it keeps runs for less than an hour"));
            }
            let text = policy.to_string();
            if keeps.insert((policy.workflow, policy.outcome), policy.keep).is_some() {
                return Err(PolicyError::new(text, "another policy is for the same workflow and outcome"));
            }
        }
        Ok(Self { keeps })
    }

    /// Returns whether no policy prunes a run.
    pub fn is_empty(&self) -> bool {
        self.keeps.values().all(Option::is_none)
    }

    /// Returns how long an ended run is kept; none: without limit, or the run has not ended.
    ///
    /// A policy of the workflow overrides one of all workflows. Only a policy of their own prunes operations.
    pub fn keep(&self, workflow: &WorkflowName, status: Status) -> Option<Duration> {
        let outcome = RetentionOutcome::of(status)?;
        let own = self.keeps.get(&(Some(workflow.clone()), outcome));
        let general = self.keeps.get(&(None, outcome)).filter(|_| !is_operation(workflow));
        own.or(general).copied().flatten()
    }

    /// Returns the shortest time of all policies; none if they prune nothing.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.keeps.values().flatten().min().copied()
    }

    /// Returns the statuses of the runs that the policies prune.
    pub(super) fn statuses(&self) -> Vec<Status> {
        let prunes = |outcome: &RetentionOutcome| {
            self.keeps.iter().any(|((_, of), keep)| of == outcome && keep.is_some())
        };
        RetentionOutcome::ALL.into_iter().filter(prunes).map(RetentionOutcome::status).collect()
    }

    /// Returns the only workflow whose runs the policies prune; none if there are several.
    pub(super) fn only_workflow(&self) -> Option<&WorkflowName> {
        let mut all = self.keeps.iter().filter(|(_, keep)| keep.is_some()).map(|((workflow, _), _)| workflow);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first.as_ref()).flatten()
    }
}

impl FromStr for RetentionPolicies {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Self::new(parts.map(str::parse).collect::<Result<Vec<RetentionPolicy>, _>>()?)
    }
}

impl FromStr for RetentionPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let refused = |reason: String| PolicyError::new(text, reason);
        let (runs, keep) = text.split_once('=').ok_or_else(|| refused("it has no `=`".to_owned()))?;
        let (workflow, outcome) = match runs.trim().rsplit_once(':') {
            Some((workflow, outcome)) => (Some(workflow.trim()), outcome.trim()),
            None => (None, runs.trim()),
        };
        let workflow = workflow
            .map(WorkflowName::new)
            .transpose()
            .map_err(|error: IdError| refused(error.to_string()))?;
        let found = RetentionOutcome::ALL.into_iter().find(|known| known.status().as_str() == outcome);
        let outcome = found.ok_or_else(|| {
            refused(format!("the outcome {outcome:?} is not completed, failed or cancelled"))
        })?;
        let keep = parse_keep(keep.trim()).map_err(|reason| refused(reason.to_owned()))?;
        Ok(Self { workflow, outcome, keep })
    }
}

/// Parses `7d` or `forever`.
fn parse_keep(text: &str) -> Result<Option<Duration>, &'static str> {
    if text == FOREVER {
        return Ok(None);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    if count.is_empty() {
        return Err("the time is not a number with a unit");
    }
    let (_, seconds) =
        UNITS.iter().find(|(name, _)| *name == unit).ok_or("the unit of the time is not m, h, d or w")?;
    let count: u64 = count.parse().map_err(|_| "the time is too long")?;
    let seconds = count.checked_mul(*seconds).ok_or("the time is too long")?;
    Ok(Some(Duration::from_secs(seconds)))
}

impl fmt::Display for RetentionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(workflow) = &self.workflow {
            write!(f, "{workflow}:")?;
        }
        write!(f, "{}=", self.outcome)?;
        let Some(keep) = self.keep else { return f.write_str(FOREVER) };
        let seconds = keep.as_secs();
        // Whole weeks are written in days, as most operators write them.
        let fits = |(_, unit): &&(&str, u64)| seconds >= *unit && seconds.is_multiple_of(*unit);
        match UNITS[1..].iter().find(fits) {
            Some((name, unit)) => write!(f, "{}{name}", seconds / unit),
            None => write!(f, "{seconds}s"),
        }
    }
}

impl fmt::Display for RetentionPolicies {
    /// Writes the text that parses to these policies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, ((workflow, outcome), keep)) in self.keeps.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            RetentionPolicy { workflow: workflow.clone(), outcome: *outcome, keep: *keep }.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RetentionPolicies {
        text.parse().unwrap()
    }

    fn keep(policies: &RetentionPolicies, workflow: &str, status: Status) -> Option<u64> {
        let kept = policies.keep(&WorkflowName::new(workflow).unwrap(), status);
        kept.map(|keep| keep.as_secs() / 3_600)
    }

    #[test]
    fn policy_of_the_workflow_overrides_the_general_one() {
        let policies = parse("completed=7d, failed=90d, order:completed=12h, audit:failed=forever");
        assert_eq!(keep(&policies, "other", Status::Completed), Some(7 * 24));
        assert_eq!(keep(&policies, "order", Status::Completed), Some(12));
        assert_eq!(keep(&policies, "order", Status::Failed), Some(90 * 24));
        assert_eq!(keep(&policies, "audit", Status::Failed), None);
        assert_eq!(keep(&policies, "audit", Status::Completed), Some(7 * 24));
        assert_eq!(keep(&policies, "other", Status::Cancelled), None);
        assert_eq!(policies.shortest(), Some(Duration::from_secs(12 * 3_600)));
        assert_eq!(policies.statuses(), [Status::Completed, Status::Failed]);
    }

    #[test]
    fn runs_that_have_not_ended_are_kept() {
        let policies = parse("completed=1h, failed=1h, cancelled=1h");
        for status in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
            assert_eq!(keep(&policies, "order", status), None, "{status}");
        }
    }

    #[test]
    fn only_their_own_policy_prunes_operations() {
        assert_eq!(keep(&parse("completed=1h"), "goldseam.operation", Status::Completed), None);
        let own = parse("goldseam.operation:completed=2d");
        assert_eq!(keep(&own, "goldseam.operation", Status::Completed), Some(48));
        assert_eq!(own.only_workflow().map(|name| name.as_str()), Some("goldseam.operation"));
        assert_eq!(parse("completed=1h,order:failed=1h").only_workflow(), None);
        assert_eq!(parse("completed=forever,order:failed=1h").only_workflow().unwrap().as_str(), "order");
    }

    #[test]
    fn text_of_policies_parses_to_the_same_policies() {
        for text in ["", "completed=7d", "failed=1h", "cancelled=90m,a.b-c:failed=2w,x:completed=forever"] {
            let policies = parse(text);
            assert_eq!(parse(&policies.to_string()), policies, "{text}");
        }
        assert!(parse("").is_empty() && parse("failed=forever").is_empty() && !parse("failed=1h").is_empty());
    }

    #[test]
    fn invalid_policies_are_refused_with_the_reason() {
        for (text, words) in [
            ("completed", "it has no `=`"),
            ("done=7d", "the outcome \"done\" is not"),
            ("waiting=7d", "the outcome \"waiting\" is not"),
            ("Completed=7d", "the outcome \"Completed\" is not"),
            ("=7d", "the outcome \"\" is not"),
            ("completed=", "not a number with a unit"),
            ("completed=-7d", "not a number with a unit"),
            ("completed=7", "the unit of the time"),
            ("completed=7 d", "the unit of the time"),
            ("completed=7D", "the unit of the time"),
            ("completed=3600s", "the unit of the time"),
            ("completed=1.5d", "the unit of the time"),
            ("completed=99999999999999999999d", "too long"),
            ("completed=9999999999999999999d", "too long"),
            ("completed=0d", "less than an hour"),
            ("completed=59m", "less than an hour"),
            ("completed=7d, completed=8d", "another policy"),
            ("a/b:completed=7d", "is not a valid workflow id"),
            (":completed=7d", "is not a valid workflow id"),
        ] {
            let error = text.parse::<RetentionPolicies>().unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
        let long = format!("completed={}", "9".repeat(5_000)).parse::<RetentionPolicies>().unwrap_err();
        assert!(long.to_string().len() < 200, "{long}");
    }
}
