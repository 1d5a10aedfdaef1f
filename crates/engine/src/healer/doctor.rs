//! The doctor: every rule over the whole store, told or healed.

use goldseam_core::recovery::Code;

use super::sweeper::{Fate, SweepOptions};
use crate::client::Client;
use crate::error::EngineError;

/// What the doctor is to do.
#[derive(Debug, Clone, Default)]
pub struct DoctorOptions {
    /// Heal what can be healed.
    pub fix: bool,
    /// Only this rule.
    pub rule: Option<Code>,
    /// Read every log, those of finished runs too.
    pub deep: bool,
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A run.
    Run(String),
    /// A task.
    Task(String),
    /// A lock.
    Lock(String),
}

impl Subject {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Run(name) | Self::Task(name) | Self::Lock(name) => name,
        }
    }

    /// What sort of thing it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Task(_) => "task",
            Self::Lock(_) => "lock",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule.
    pub code: Code,
    /// With what.
    pub subject: Subject,
    /// What was seen.
    pub evidence: String,
    /// What is done about it, or what to do.
    pub remedy: String,
    /// What became of it.
    pub fate: Fate,
}

/// What a whole examination brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkup {
    /// Runs looked at.
    pub scanned: u64,
    /// Everything that is wrong, or was.
    pub findings: Vec<Finding>,
    /// How much of it was healed.
    pub healed: u64,
    /// Cached rows written anew.
    pub rows_rewritten: u64,
}

impl Checkup {
    /// Whether something is left that is wrong.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| matches!(finding.fate, Fate::Healed | Fate::Moved))
    }
}

impl Client {
    /// Examines the whole store by every rule; heals what can be healed if that is wanted.
    pub async fn doctor(&self, options: DoctorOptions) -> Result<Checkup, EngineError> {
        let sweep = SweepOptions {
            stale_after: Some(std::time::Duration::ZERO),
            dry_run: !options.fix,
            rule: options.rule,
            parked: true,
            deep: options.deep,
        };
        let report = self.sweeper(sweep).sweep().await?;
        let mut checkup = Checkup {
            scanned: report.scanned,
            healed: report.healed,
            rows_rewritten: report.rows_rewritten,
            findings: Vec::new(),
        };
        for stalled in report.stalled {
            let diagnosis = stalled.found.diagnosis;
            checkup.findings.push(Finding {
                code: diagnosis.rule,
                subject: Subject::Run(stalled.found.run.as_str().to_owned()),
                remedy: diagnosis.remedy.describe(),
                evidence: diagnosis.evidence,
                fate: stalled.fate,
            });
        }
        checkup.findings.retain(|finding| options.rule.is_none_or(|rule| rule == finding.code));
        Ok(checkup)
    }
}
