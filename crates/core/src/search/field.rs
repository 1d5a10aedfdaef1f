//! The fields of a run that conditions can name.

/// A field of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunField {
    /// Id of the run.
    Id,
    /// Name of its workflow.
    Workflow,
    /// The version that it runs on; 0 while undecided.
    Version,
    /// The present status.
    Status,
    /// Queue of its advance task.
    Queue,
    /// Its priority.
    Priority,
    /// The run that started it.
    Parent,
    /// Whether no run started it.
    Root,
    /// Number of the active branch.
    Branch,
    /// The node that owns it.
    Owner,
    /// Cause of its failure, or of its parking.
    Cause,
    /// Message of its failure, or of its parking, shortened.
    Error,
    /// Code of its failure, or of its parking.
    Code,
    /// Path of the present or the last step.
    Step,
    /// When it was queued.
    Created,
    /// When its row was last brought up to date: the time of the last event in it.
    Updated,
    /// When it ended.
    Ended,
    /// When it was last recovered.
    Recovered,
    /// Total number of recoveries.
    Recoveries,
    /// Recoveries since the last progress.
    Attempt,
    /// Whether an operator terminated it.
    Terminated,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFieldKind {
    /// A text.
    Text,
    /// A status.
    Status,
    /// A whole number.
    Integer,
    /// A point in time.
    Time,
    /// True or false.
    Boolean,
}

impl RunField {
    /// Every field.
    pub const ALL: [Self; 21] = [
        Self::Id,
        Self::Workflow,
        Self::Version,
        Self::Status,
        Self::Queue,
        Self::Priority,
        Self::Parent,
        Self::Root,
        Self::Branch,
        Self::Owner,
        Self::Cause,
        Self::Error,
        Self::Code,
        Self::Step,
        Self::Created,
        Self::Updated,
        Self::Ended,
        Self::Recovered,
        Self::Recoveries,
        Self::Attempt,
        Self::Terminated,
    ];

    /// Returns its name in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Workflow => "workflow",
            Self::Version => "version",
            Self::Status => "status",
            Self::Queue => "queue",
            Self::Priority => "priority",
            Self::Parent => "parent",
            Self::Root => "root",
            Self::Branch => "branch",
            Self::Owner => "owner",
            Self::Cause => "cause",
            Self::Error => "error",
            Self::Code => "code",
            Self::Step => "step",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Ended => "ended",
            Self::Recovered => "recovered",
            Self::Recoveries => "recoveries",
            Self::Attempt => "attempt",
            Self::Terminated => "terminated",
        }
    }

    /// Returns the field with this name. `started` is another name of `created`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "started" => Some(Self::Created),
            name => Self::ALL.into_iter().find(|field| field.as_str() == name),
        }
    }

    /// Returns its type.
    pub fn kind(self) -> RunFieldKind {
        match self {
            Self::Id
            | Self::Workflow
            | Self::Queue
            | Self::Parent
            | Self::Owner
            | Self::Cause
            | Self::Error
            | Self::Code
            | Self::Step => RunFieldKind::Text,
            Self::Status => RunFieldKind::Status,
            Self::Version | Self::Priority | Self::Branch | Self::Recoveries | Self::Attempt => {
                RunFieldKind::Integer
            }
            Self::Created | Self::Updated | Self::Ended | Self::Recovered => RunFieldKind::Time,
            Self::Root | Self::Terminated => RunFieldKind::Boolean,
        }
    }
}

impl RunFieldKind {
    /// Returns what a value of this type looks like.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Text => "a text, as in \"eu\"",
            Self::Status => "a status, as in failed",
            Self::Integer => "a number, as in 3",
            Self::Time => "a time, as in -2h or 2026-11-18T09:30:00Z",
            Self::Boolean => "true or false",
        }
    }
}
