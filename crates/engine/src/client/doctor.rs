//! The doctor: applies every rule to the whole store, and reports or heals.

use goldseam_core::Hint;
use goldseam_core::recovery::Code;
use goldseam_store::{RecordKind, StoreError, Unreadable};

use crate::client::Client;
use crate::heal::sweeper::{Fate, Stalled, SweepOptions, SweepReport};
use crate::ledger::error::EngineError;

/// Maximum passes over the store in one examination. A pass that healed something is followed by another, because a
/// healed finding may have hidden others.
const PASSES_MAX: u32 = 3;

/// Records per read of the store.
const RECORDS: u32 = 5_000;

/// The place of the last part of an examination: claims, and records that are not runs.
const RECORDS_PLACE: &str = "records:";

/// Options of the doctor.
#[derive(Debug, Clone, Default)]
pub struct DoctorOptions {
    /// Heal findings that have an automatic remedy.
    pub fix: bool,
    /// Apply only this rule.
    pub rule: Option<Code>,
    /// Read every log, including those of ended runs.
    pub deep: bool,
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A run.
    Run(String),
    /// A task.
    Task(String),
    /// A lock.
    Lock(String),
    /// A node.
    Node(String),
    /// Another record, by its key.
    Record(String),
}

impl Subject {
    /// The name of the subject.
    pub fn name(&self) -> &str {
        match self {
            Self::Run(name) | Self::Task(name) | Self::Lock(name) | Self::Node(name) | Self::Record(name) => {
                name
            }
        }
    }

    /// The kind of the subject.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Task(_) => "task",
            Self::Lock(_) => "lock",
            Self::Node(_) => "node",
            Self::Record(_) => "record",
        }
    }
}

/// A problem that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule.
    pub code: Code,
    /// The subject.
    pub subject: Subject,
    /// The evidence.
    pub evidence: String,
    /// What the doctor does, or what the operator should do.
    pub remedy: Hint,
    /// What happened to the finding.
    pub fate: Fate,
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkup {
    /// Number of runs examined.
    pub scanned: u64,
    /// All findings, healed or not.
    pub findings: Vec<Finding>,
    /// Number of findings that were healed.
    pub healed: u64,
    /// Number of cached rows rewritten.
    pub rows_rewritten: u64,
}

impl Checkup {
    /// Whether no problem is left.
    pub fn is_healthy(&self) -> bool {
        let is_resolved = |fate: &Fate| matches!(fate, Fate::Healed | Fate::Moved | Fate::Waits);
        self.findings.iter().all(|finding| is_resolved(&finding.fate))
    }

    /// Keeps the findings of one rule, if one is wanted, and counts the healed ones.
    fn of_rule(mut self, rule: Option<Code>) -> Self {
        self.findings.retain(|finding| rule.is_none_or(|rule| rule == finding.code));
        let healed = self.findings.iter().filter(|finding| finding.fate == Fate::Healed);
        self.healed = healed.count() as u64;
        self
    }

    /// Adds a finding. A known finding takes the newer fate.
    fn add(&mut self, new: Finding) {
        let same = |old: &&mut Finding| old.code == new.code && old.subject == new.subject;
        match self.findings.iter_mut().find(same) {
            Some(old) if old.fate == Fate::Healed && matches!(new.fate, Fate::Moved | Fate::Waits) => {}
            Some(old) => *old = new,
            None => self.findings.push(new),
        }
    }
}

fn sweep_options(options: &DoctorOptions) -> SweepOptions {
    SweepOptions {
        stale_after: Some(std::time::Duration::ZERO),
        dry_run: !options.fix,
        rule: options.rule,
        parked: true,
        deep: options.deep,
        // No rule covers foreign states.
        foreign: None,
        from_log: false,
        walk: 0,
        slice: None,
    }
}

fn unknown_place(place: &str) -> EngineError {
    EngineError::Store(StoreError::Refused {
        code: "GS0227",
        what: format!(
            "{:?} is not a place in an examination of the store",
            place.chars().take(40).collect::<String>()
        ),
        hint: "pass `next` of the previous page unchanged, or omit it to begin".into(),
    })
}

impl Client {
    /// Examines the whole store by every rule, and heals if `options.fix` is set.
    pub async fn doctor(&self, options: DoctorOptions) -> Result<Checkup, EngineError> {
        self.doctor_telling(options, &mut |_| ()).await
    }

    /// Like [`Client::doctor`], and calls `tell` with the number of runs examined so far.
    pub async fn doctor_telling(
        &self,
        options: DoctorOptions,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Checkup, EngineError> {
        let mut sweeper = self.sweeper(sweep_options(&options));
        let mut checkup = Checkup::default();
        for _ in 0..PASSES_MAX {
            let mut report = SweepReport { more: true, ..SweepReport::default() };
            while report.more {
                report.add(sweeper.tick().await?);
                tell(report.scanned);
            }
            checkup.scanned = checkup.scanned.max(report.scanned);
            checkup.rows_rewritten += report.rows_rewritten;
            report.stalled.into_iter().map(finding).for_each(|finding| checkup.add(finding));
            if report.healed == 0 {
                break;
            }
        }
        self.examine_claims(&options, &mut checkup).await?;
        self.examine_records(options.deep, &mut checkup).await?;
        Ok(checkup.of_rule(options.rule))
    }

    /// Examines the next part of the store, after the place that the previous part returned; none: the first part.
    /// Returns the place of the next part; none after the last one.
    ///
    /// If a part healed something, examine the store once more: a healed finding may have hidden others.
    pub async fn doctor_part(
        &self,
        options: DoctorOptions,
        after: Option<&str>,
    ) -> Result<(Checkup, Option<String>), EngineError> {
        let mut checkup = Checkup::default();
        if after == Some(RECORDS_PLACE) {
            self.examine_claims(&options, &mut checkup).await?;
            self.examine_records(options.deep, &mut checkup).await?;
            return Ok((checkup.of_rule(options.rule), None));
        }
        let mut sweeper = self.sweeper(sweep_options(&options));
        if let Some(place) = after
            && !sweeper.continue_at(place)
        {
            return Err(unknown_place(place));
        }
        let report = sweeper.tick().await?;
        let next = if report.more { sweeper.place() } else { RECORDS_PLACE.to_owned() };
        checkup.scanned = report.scanned;
        checkup.rows_rewritten = report.rows_rewritten;
        report.stalled.into_iter().map(finding).for_each(|finding| checkup.add(finding));
        Ok((checkup.of_rule(options.rule), Some(next)))
    }

    /// Rule U1: unreadable tasks, locks, nodes and other records.
    async fn examine_records(&self, deep: bool, checkup: &mut Checkup) -> Result<(), EngineError> {
        let mut kinds = vec![RecordKind::Task, RecordKind::Lock, RecordKind::Node];
        // On object storage these are read one by one, and only a deep examination reads them all.
        kinds.extend(deep.then_some(RecordKind::Index));
        for kind in kinds {
            let mut after = None;
            loop {
                let page = self.store().unreadable(kind, after.as_deref(), RECORDS).await?;
                page.items.into_iter().map(unreadable).for_each(|finding| checkup.add(finding));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Rules L1 and L2: locks and tasks without a live holder.
    async fn examine_claims(
        &self,
        options: &DoctorOptions,
        checkup: &mut Checkup,
    ) -> Result<(), EngineError> {
        let claims = self.claims();
        let wanted = |code: Code| options.rule.is_none_or(|rule| rule == code);
        let fate = if options.fix { Fate::Healed } else { Fate::Reported };
        let mut found = Vec::new();
        for stale in claims.stale_locks().await? {
            let name = stale.lock.name.as_str().to_owned();
            found.push((Code::L1, Subject::Lock(name), stale.why, "free it"));
        }
        for stale in claims.stale_tasks().await? {
            let name = stale.task.id.as_str().to_owned();
            found.push((Code::L2, Subject::Task(name), stale.why, "put it back into its queue"));
        }
        found.retain(|(code, ..)| wanted(*code));
        let is_found = |code: Code| found.iter().any(|(found, ..)| *found == code);
        if options.fix && is_found(Code::L1) {
            claims.free_stale_locks().await?;
        }
        if options.fix && is_found(Code::L2) {
            claims.reclaim_stale_tasks().await?;
        }
        checkup.findings.extend(found.into_iter().map(|(code, subject, evidence, remedy)| Finding {
            code,
            subject,
            evidence,
            remedy: remedy.into(),
            fate: fate.clone(),
        }));
        Ok(())
    }
}

fn unreadable(found: Unreadable) -> Finding {
    // Rule O1 also finds the run of an advance task.
    let fate = if found.advance { Fate::Reported } else { Fate::NeedsHelp };
    let (subject, remedy) = match found.kind {
        RecordKind::Row => (Subject::Run(found.key), "the row is rewritten from the log"),
        RecordKind::Task if found.advance => (Subject::Task(found.key), "rule O1 creates a new task"),
        RecordKind::Task => {
            (Subject::Task(found.key), "workers cannot claim it; repair or remove the record manually")
        }
        RecordKind::Lock => {
            (Subject::Lock(found.key), "it counts as held; repair or remove the record manually")
        }
        RecordKind::Node => (Subject::Node(found.key), "it counts as up; the node's next beat rewrites it"),
        RecordKind::Index => {
            (Subject::Record(found.key), "its key or lane stays blocked; remove the record manually")
        }
    };
    let evidence = format!("unreadable record: {}", found.reason);
    Finding { code: Code::U1, subject, evidence, remedy: remedy.into(), fate }
}

fn finding(stalled: Stalled) -> Finding {
    let diagnosis = stalled.found.diagnosis;
    // Parking keeps workers away from a damaged log but does not heal it.
    let fate = match stalled.fate {
        Fate::Reported | Fate::Young | Fate::Healed if diagnosis.rule == Code::K1 => Fate::NeedsHelp,
        fate => fate,
    };
    Finding {
        code: diagnosis.rule,
        subject: Subject::Run(stalled.found.run.as_str().to_owned()),
        remedy: diagnosis.remedy.describe(),
        evidence: diagnosis.evidence,
        fate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: Code, subject: &str, fate: Fate) -> Finding {
        let subject = Subject::Run(subject.to_owned());
        Finding { code, subject, evidence: fate.as_str().to_owned(), remedy: Hint::default(), fate }
    }

    #[test]
    fn subject_has_a_name_and_a_kind() {
        for (subject, kind) in [
            (Subject::Run("x".into()), "run"),
            (Subject::Task("x".into()), "task"),
            (Subject::Lock("x".into()), "lock"),
            (Subject::Node("x".into()), "node"),
            (Subject::Record("x".into()), "record"),
        ] {
            assert_eq!((subject.name(), subject.kind()), ("x", kind));
        }
    }

    #[test]
    fn known_finding_takes_the_newer_fate_but_stays_healed() {
        let cases = [
            (Fate::Healed, Fate::Moved, Fate::Healed),
            (Fate::Healed, Fate::Reported, Fate::Reported),
            (Fate::Healed, Fate::NeedsHelp, Fate::NeedsHelp),
            (Fate::Reported, Fate::Moved, Fate::Moved),
            (Fate::Young, Fate::Healed, Fate::Healed),
        ];
        for (old, new, expected) in cases {
            let mut checkup = Checkup::default();
            checkup.add(finding(Code::O1, "r", old));
            checkup.add(finding(Code::O1, "r", new));
            assert_eq!(checkup.findings, [finding(Code::O1, "r", expected)]);
        }
    }

    #[test]
    fn findings_differ_by_rule_and_subject() {
        let mut checkup = Checkup::default();
        let all = [(Code::O1, "r"), (Code::O2, "r"), (Code::O1, "s"), (Code::N1, "t")];
        for (code, subject) in all {
            checkup.add(finding(code, subject, Fate::Reported));
        }
        assert_eq!(checkup.findings, all.map(|(code, subject)| finding(code, subject, Fate::Reported)));
    }

    #[test]
    fn store_is_healthy_if_all_findings_healed_moved_or_wait() {
        let is_healthy = |fate: Fate| {
            let findings = vec![finding(Code::O1, "r", Fate::Healed), finding(Code::O1, "s", fate)];
            Checkup { findings, ..Checkup::default() }.is_healthy()
        };
        let fates = [
            Fate::Healed,
            Fate::Moved,
            Fate::Waits,
            Fate::Young,
            Fate::Reported,
            Fate::NeedsHelp,
            Fate::Stopped,
        ];
        assert_eq!(fates.map(is_healthy), [true, true, true, false, false, false, false]);
        assert!(!is_healthy(Fate::Failed("no".to_owned())));
        assert!(Checkup::default().is_healthy());
    }
}
