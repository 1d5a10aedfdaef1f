// Generated from docs/openapi.json by scripts/types.mjs.

export type Activity = {
  complete: boolean;
  heal_ms: Spread;
  interval_ms: number;
  intervals: Array<Interval>;
  now: Millis;
  stalled_ms: Spread;
};

export type Answered = {
  event: Seq;
  question: Path;
  run: Id;
};

export type AnsweredAt = {
  request: string;
  seq: Seq;
};

export type Asked = {
  at: Millis;
  by?: string | null;
};

export type AttemptTimeout = "timeout" | "heartbeat-timeout";

export type Audit = {
  at: Millis;
  details?: Payload;
  heal?: AuditHeal | null;
  state?: Id | null;
  what: string;
};

export type AuditHeal = {
  attempt: number;
  ended?: string | null;
  holder?: string | null;
  node?: Id | null;
  reason: string;
  rule: string;
  stale_ms?: number;
  state?: Id | null;
  version: number;
};

export type BranchId = number;

export type BranchItem = {
  active: boolean;
  branch: string;
  cutoff: Seq;
  events: number;
  opened: Seq;
  parent?: string | null;
  why: string;
};

export type Branched = {
  branch: string;
  event: Seq;
  run: Id;
};

export type Cancelled = {
  ended: boolean;
  event: Seq;
  run: Id;
  waits_for?: string | null;
};

export type Change = "left" | "right" | "changed";

export type Checkup = {
  counts?: Array<FindingCount>;
  findings: Array<Finding>;
  healed: number;
  healthy: boolean;
  next?: string | null;
  rows_rewritten: number;
  scanned: number;
  total?: number;
};

export type ChildStart = {
  attributes?: Record<string, unknown>;
  id?: Id | null;
  priority?: number | null;
  queue?: Id | null;
  tags?: Record<string, string>;
  version?: number | null;
};

export type ClaimExecutions = {
  holding?: Array<string>;
  limit: number;
  wait_ms?: number;
};

export type Claimed = {
  last_heartbeat?: Payload;
  task: Task;
  token?: string | null;
};

export type ClaimedExecutions = {
  executions: Array<Execution>;
  leaving: boolean;
  now: Millis;
};

export type Class = "retryable" | "terminal" | "unknown";

export type Code = "A1" | "A2" | "A3" | "A4" | "D2" | "E2" | "F1" | "O1" | "O2" | "O3" | "H1" | "L1" | "L2" | "W1" | "W2" | "V1" | "P1" | "N1" | "K1" | "K2" | "C1" | "U1";

export type CurrentKey = {
  id?: string | null;
  name: string;
  namespace: string;
  queues?: Array<Id> | null;
  scopes: Array<Scope>;
};

export type Cut = {
  after: Seq;
  from?: string | null;
  to: string;
};

export type Damage = {
  newer: boolean;
  reason: string;
  seq: Seq;
};

export type Detail = {
  alone?: boolean;
  answered?: Array<AnsweredAt>;
  as_of: Seq;
  attempt?: number;
  attributes?: Record<string, unknown>;
  attributes_at?: Seq | null;
  base?: Seq;
  branch: BranchId;
  branches: Array<BranchItem>;
  bytes?: number | null;
  cancel?: string | null;
  cancel_asked?: Asked | null;
  claimed_at?: Millis | null;
  compensating?: boolean;
  created_at: Millis;
  cut_off?: Array<OpenInput>;
  damage?: Array<Damage>;
  deadline?: Millis | null;
  epoch: Seq;
  failed_step?: Path | null;
  failure?: Failure | null;
  finished_at?: Millis | null;
  head: Hash;
  initial_version: number;
  input: Payload;
  input_hash: Hash;
  inputs?: Array<OpenInput>;
  jump?: PendingJump | null;
  lane?: Id | null;
  last_event_at: Millis;
  left_standing?: Terminated | null;
  lived_ms?: number | null;
  mail_count?: number;
  mail_ids?: Array<string>;
  mail_unread?: number;
  output?: Payload;
  owner?: Id | null;
  parent?: Id | null;
  parked?: boolean;
  paused?: boolean;
  pending?: Array<Pending>;
  plan: Array<Planned>;
  priority?: number;
  pruned?: Pruned | null;
  published?: Record<string, PublishedAt>;
  questions: Array<OpenQuestion>;
  queue: Id;
  recovered_at?: Millis | null;
  recoveries?: number;
  recovery?: RecoveryPolicy | null;
  run: Id;
  seams: Array<Seam>;
  spans?: Array<StepSpan>;
  start_at?: Millis | null;
  started?: boolean;
  status: Status;
  step?: Path | null;
  steps: Array<Step>;
  steps_done: number;
  tags?: Record<string, string>;
  terminated?: boolean;
  timed_out?: boolean;
  trouble?: Trouble | null;
  under_way?: Array<Path>;
  version: number;
  waits?: Array<OpenWait>;
  workflow: Id;
};

export type Diff = {
  damage?: Array<Damage>;
  items: Array<DiffItem>;
  left: string;
  parted_after: Seq;
  right: string;
  run: Id;
};

export type DiffItem = {
  change: Change;
  left?: string | null;
  path: string;
  right?: string | null;
};

export type Done = {
  event: Seq;
  run: Id;
};

export type Ending = {
  event: Seq;
  failure?: Failure | null;
  output?: Payload;
  run: Id;
  status: Status;
};

export type EventDoc = {
  at: Moment;
  at_ms: number;
  branch: string;
  data?: Payload;
  epoch?: Seq | null;
  seq: Seq;
  type: string;
};

export type EventsWanted = {
  after: Seq;
  token: string;
};

export type Examples = {
  count: number;
  runs: Array<Id>;
};

export type Execution = {
  attempt: number;
  attributes?: Record<string, unknown>;
  base: Seq;
  branch: BranchId;
  cancel_requested: boolean;
  created_at: Millis;
  deadline?: Millis | null;
  end: Seq;
  epoch: Seq;
  events: Array<ExecutionEvent>;
  generation: BranchId;
  input: Payload;
  more: boolean;
  other_input_until: Seq;
  run: Id;
  tags: Record<string, string>;
  token: string;
  trace?: TraceContext | null;
  version: number;
  workflow: Id;
};

export type ExecutionEvent = {
  at: Millis;
  event: unknown;
  seq: Seq;
};

export type ExecutionNews = {
  end: Seq;
  events: Array<ExecutionEvent>;
  more: boolean;
  token: string;
};

export type ExecutionOutcome = "held" | "again" | "over" | "continued";

export type Explanation = {
  findings: Array<Wrong>;
  links: Array<Link>;
  moves_at?: Moment | null;
  next?: Array<NextStep>;
  quarantine?: Quarantine | null;
  run: Id;
  status: Status;
  verdict?: string;
  you_can: Array<string>;
};

export type Extension = {
  fence: number;
  holder: string;
  ttl_ms?: number | null;
};

export type Failure = {
  class?: Class;
  code?: string | null;
  message: string;
};

export type FailureGroup = {
  cause?: string | null;
  code?: string | null;
  command?: string | null;
  count: number;
  example: Id;
  first: Millis;
  last: Millis;
  message: string;
  step?: Path | null;
  workflows: Array<string>;
};

export type Failures = {
  groups: Array<FailureGroup>;
  left_out: number;
  total: number;
  unreadable?: Array<UnreadableItem>;
};

export type Fate = "healed" | "young" | "told" | "moved" | "needs_help" | "waits" | "stopped" | "failed";

export type Finding = {
  code?: Code | null;
  error?: string | null;
  event?: Seq | null;
  evidence: string;
  fate: Fate;
  lock?: string | null;
  node?: string | null;
  record?: string | null;
  remedy: string;
  rule_name?: string | null;
  run?: string | null;
  severity?: Severity;
  since?: Moment | null;
  state?: string | null;
  task?: string | null;
};

export type FindingCount = {
  code?: Code | null;
  count: number;
  fate: Fate;
  rule_name?: string | null;
  severity: Severity;
};

export type Flaw = {
  flaw: string;
  task: Id;
};

export type ForeignSweep = {
  healed: number;
  healthy: number;
  scanned: number;
  skipped: number;
  stalled: Array<Finding>;
  unnamed?: Array<string>;
};

export type Form = "text" | FormChoice | FormSchema | "any";

export type FormChoice = {
  choice: Array<string>;
};

export type FormSchema = {
  schema: unknown;
};

export type Group = {
  count: number;
  example: Id;
  first: Millis;
  key?: string | null;
  last: Millis;
  workflows?: Array<string>;
};

export type Groups = {
  by?: string | null;
  groups: Array<Group>;
  left_out?: number;
  note?: string | null;
  total: number;
  unreadable?: Array<UnreadableItem>;
};

export type Hash = string;

export type Healing = {
  at: Moment;
  at_ms: Millis;
  attempt: number;
  cutoff?: Seq | null;
  ended?: string | null;
  event?: Seq | null;
  evidence: string;
  heal_ms?: number | null;
  holder?: string | null;
  lock?: string | null;
  new_branch?: string | null;
  node?: Id | null;
  previous_branch?: string | null;
  reason: string;
  rule: string;
  rule_name?: string | null;
  run?: Id | null;
  stalled_ms: number;
  state?: string | null;
  task?: string | null;
  workflow?: Id | null;
};

export type HealingStats = {
  count: number;
  ended?: boolean;
  heal_ms: Spread;
  rule: string;
  rule_name?: string | null;
  stalled_ms: Spread;
};

export type History = {
  damage?: Array<Damage>;
  items: Array<EventDoc>;
  next?: Seq | null;
  run: Id;
};

export type Hold = {
  fence?: number | null;
  token?: string | null;
};

export type Id = string;

export type Interval = {
  at: Millis;
  cancelled: number;
  completed: number;
  failed: number;
  recovered: number;
  started: number;
};

export type Items_BranchItem = {
  damage?: Array<Damage>;
  items: Array<BranchItem>;
};

export type Items_Claimed = {
  damage?: Array<Damage>;
  items: Array<Claimed>;
};

export type Items_HealingStats = {
  damage?: Array<Damage>;
  items: Array<HealingStats>;
};

export type Items_Key = {
  damage?: Array<Damage>;
  items: Array<Key>;
};

export type Items_Node = {
  damage?: Array<Damage>;
  items: Array<Node>;
};

export type Items_PublishedValue = {
  damage?: Array<Damage>;
  items: Array<PublishedValue>;
};

export type Items_Question = {
  damage?: Array<Damage>;
  items: Array<(OpenQuestion) & ({
    run: Id;
    workflow: Id;
  })>;
};

export type Items_Recovery = {
  damage?: Array<Damage>;
  items: Array<Recovery>;
};

export type Items_StaleLock = {
  damage?: Array<Damage>;
  items: Array<StaleLock>;
};

export type Items_Suggestion = {
  damage?: Array<Damage>;
  items: Array<Suggestion>;
};

export type Items_Workflow = {
  damage?: Array<Damage>;
  items: Array<Workflow>;
};

export type Jumped = {
  branch?: string | null;
  cancel_pending?: boolean;
  compensating?: boolean;
  event?: Seq | null;
  over?: boolean;
  run: Id;
  standing: Array<Path>;
  step: Path;
  waits_for?: string | null;
};

export type Key = {
  created_at: Millis;
  created_by?: string | null;
  expires_at?: Millis | null;
  id: string;
  name: string;
  namespace: string;
  queues?: Array<Id> | null;
  revoked_at?: Millis | null;
  scopes: Array<Scope>;
};

export type LeftRun = {
  run: Id;
  why: string;
};

export type LeftWorker = {
  worker: Id;
};

export type Link = {
  depth: number;
  since?: Moment | null;
  until?: Moment | null;
  what: string;
};

export type Lock = {
  acquired_at: Millis;
  audit?: Array<Audit>;
  expires_at: Millis;
  fence: number;
  holder?: string | null;
  name: Id;
  node?: string | null;
  version: number;
};

export type MadeKey = (Key) & ({
  credential: string;
});

export type MadePass = {
  callback: string;
  expires_at: Millis;
  pass: string;
  run: Id;
  secret: string;
};

export type Mark = {
  mark: number;
};

export type Millis = number;

export type Moment = number;

export type NewAnswer = {
  answer: Payload;
  by?: string | null;
  id?: string | null;
  since?: Millis | null;
};

export type NewCheckup = {
  after?: string | null;
  deep?: boolean;
  fix?: boolean;
  limit?: number | null;
  page?: boolean;
  rule?: Code | null;
};

export type NewClaim = {
  kind?: string | null;
  limit?: number | null;
  owner: string;
  queue?: string | null;
  wait_ms?: number | null;
};

export type NewFailure = {
  failure: Failure;
  fence?: number | null;
  token?: string | null;
};

export type NewHeartbeat = {
  details?: Payload;
  fence?: number | null;
  state?: string | null;
  token?: string | null;
};

export type NewHold = {
  holder: string;
  ttl_ms?: number | null;
};

export type NewJump = {
  by?: string | null;
  compensate?: boolean;
  drop_cancel?: boolean;
  drop_mail?: boolean;
  dry_run?: boolean;
  input?: Payload;
  reason?: string;
  to: string;
};

export type NewKey = {
  name: string;
  namespace?: string | null;
  queues?: Array<Id> | null;
  scopes: Array<Scope>;
  valid_for_ms?: number | null;
};

export type NewMigration = {
  by?: string | null;
  reason?: string;
  to_version: number;
};

export type NewOperation = {
  by?: string | null;
  canary?: string | null;
  canary_timeout_ms?: number | null;
  payload?: unknown;
  rate?: string | null;
  reason?: string;
  signal?: string | null;
  verb: Verb;
  where: string;
};

export type NewPass = {
  answer?: Path | null;
  signal?: Id | null;
  valid_for_ms?: number | null;
};

export type NewPrune = {
  by?: string | null;
  completed_before_ms: number;
  limit?: number | null;
  reason?: string;
  status?: Array<Status>;
  workflow?: string | null;
};

export type NewReclaim = {
  dry_run?: boolean;
  older_than_ms?: number | null;
};

export type NewRecovery = {
  by?: string | null;
  compensate?: boolean;
  dry_run?: boolean;
  reason?: string;
  rule?: Code | null;
};

export type NewRelease = {
  fence: number;
  holder: string;
};

export type NewRequest = {
  id?: string | null;
  payload?: Payload;
  wait_ms?: number | null;
};

export type NewResult = {
  fence?: number | null;
  result?: Payload;
  token?: string | null;
};

export type NewRetry = {
  by?: string | null;
  drop_cancel?: boolean;
  reason?: string;
};

export type NewRun = {
  attributes?: Record<string, unknown>;
  deadline_ms?: number | null;
  delay_ms?: number | null;
  id?: string | null;
  input?: Payload;
  lane?: string | null;
  priority?: number;
  queue?: string | null;
  start_at_ms?: number | null;
  tags?: Record<string, string>;
  timeout_ms?: number | null;
  version?: number | null;
  workflow: string;
};

export type NewSignal = {
  id?: string | null;
  name: string;
  payload?: Payload;
};

export type NewSweep = {
  dry_run?: boolean;
  foreign?: boolean;
  foreign_kind?: string | null;
  foreign_queue?: string | null;
  from_log?: boolean;
  stale_after_ms?: number | null;
};

export type NewTask = {
  attempts_max?: number;
  delay_ms?: number;
  id?: string | null;
  key?: string | null;
  kind: string;
  lane?: string | null;
  payload?: Payload;
  priority?: number;
  queue?: string | null;
  silence_max_ms?: number | null;
};

export type NewWithdrawal = {
  by?: string | null;
  reason?: string;
  what?: Request | null;
};

export type NextStep = {
  code?: string | null;
  data?: Payload;
  name?: Id | null;
  question?: Path | null;
  request?: Request | null;
  rule?: string | null;
  run?: Id | null;
  setting?: string | null;
  store?: string | null;
  to_version?: number | null;
  value?: Payload;
  verb: string;
};

export type Node = {
  alive: boolean;
  beat_at: Millis;
  beats: number;
  id: Id;
  name: string;
  pulse: string;
  queues?: Array<string> | null;
  release?: string | null;
  running?: number | null;
  slots: number;
  started_at: Millis;
  state: string;
  why?: string | null;
  workflows: Array<string>;
};

export type Note = {
  by?: string | null;
  id: string;
  reason?: string;
};

export type OpenInput = {
  form: Form;
  path: Path;
  prompt: string;
  since: Millis;
};

export type OpenQuestion = (OpenInput) & ({
  command: string;
});

export type OpenWait = {
  children?: Array<Id>;
  due?: Millis | null;
  inputs?: Array<Path>;
  path: Path;
  schemas?: Record<string, unknown>;
  signals?: Array<Id>;
  since: Millis;
  tasks?: Array<Id>;
};

export type Operation = {
  begun_at: Millis;
  by?: string | null;
  canary?: string | null;
  ended_at?: Millis | null;
  id: Id;
  progress: Progress;
  rate?: string | null;
  reason: string;
  status: Status;
  verb: Verb;
  where: string;
};

export type OperationEnd = "done" | "relapsed" | "timed_out";

export type OperationPhase = "planning" | "acting" | "watching" | "ended";

export type Page_Healing = {
  items: Array<Healing>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Page_Lock = {
  items: Array<Lock>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Page_Operation = {
  items: Array<Operation>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Page_Question = {
  items: Array<(OpenQuestion) & ({
    run: Id;
    workflow: Id;
  })>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Page_Summary = {
  items: Array<Summary>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Page_Task = {
  items: Array<Task>;
  next?: string | null;
  note?: string | null;
  unreadable?: Array<UnreadableItem>;
};

export type Path = string;

export type Payload = unknown;

export type Pending = {
  by?: string | null;
  reason?: string;
  since?: Millis | null;
  to?: Path | null;
  undoes?: Array<Path>;
  what: Request;
};

export type PendingJump = {
  at: Millis;
  by?: string | null;
  reason?: string;
  to: Path;
};

export type Planned = {
  done: boolean;
  step: Id;
};

export type Preview = {
  groups: Array<Group>;
  matched: number;
  samples: Array<Id>;
  skipped: Record<string, Examples>;
  stages: Array<number>;
  unreadable?: Array<UnreadableItem>;
  verb: Verb;
  where: string;
  would_act: number;
};

export type Problem = {
  code?: string | null;
  detail: string;
  hint?: string | null;
  limit?: number | null;
  next?: Array<NextStep> | null;
  status: number;
  title: string;
  type: string;
};

export type Progress = {
  acted: number;
  handled: number;
  outcome?: OperationEnd | null;
  phase: OperationPhase;
  planned: number;
  refused?: Record<string, Examples>;
  relapse?: Relapse | null;
  skipped?: Record<string, Examples>;
  stages?: Array<number>;
  stages_passed?: number;
  unreadable?: number;
  watch_until?: Millis | null;
  watched?: number;
};

export type PrunableRun = {
  events: number;
  finished_at: Millis;
  run: Id;
  status: Status;
  workflow: Id;
};

export type PrunePlan = {
  before: Millis;
  bytes?: number;
  dry_run: boolean;
  events?: number;
  held: number;
  runs: Array<PrunableRun>;
  unfinished: number;
};

export type PruneReport = {
  archives: Array<string>;
  bytes: number;
  events: number;
  finished: number;
  freed_bytes?: number;
  held: number;
  left: Array<LeftRun>;
  more?: boolean;
  pruned: Array<PrunedRun>;
};

export type Pruned = {
  archive: string;
  at: Millis;
};

export type PrunedRun = {
  archive: string;
  events: number;
  finished_at: Millis;
  run: Id;
  status: Status;
  workflow: Id;
};

export type PublishedAt = {
  hash: Hash;
  seq: Seq;
};

export type PublishedValue = {
  at: Moment;
  event: Seq;
  name: string;
  run: Id;
  value: Payload;
};

export type Quarantine = {
  place: string;
  since: Moment;
  until: Moment;
};

export type Question = (OpenQuestion) & ({
  run: Id;
  workflow: Id;
});

export type QueueStats = {
  claimed: number;
  dead: number;
  due: number;
  nodes?: number | null;
  oldest_ms?: number | null;
  queue: Id;
  ready: number;
  tasks_due?: number;
};

export type Reason = {
  by?: string | null;
  reason?: string;
};

export type Reclaimed = {
  dry_run: boolean;
  entries_reclaimed: number;
  locks_cleaned?: number | null;
  recovery_timestamp?: Millis | null;
};

export type Recovery = {
  automatic?: boolean | null;
  branch?: string | null;
  evidence?: string | null;
  healed: boolean;
  needed: boolean;
  remedy?: string | null;
  rule?: Code | null;
  rule_name?: string | null;
  run?: Id | null;
  standing: Array<Path>;
  status: Status;
};

export type RecoveryPolicy = {
  attempts_max: number;
  delay_ms: number;
  park: boolean;
  stale_ms: number;
};

export type RegisterWorker = {
  lease_ms?: number | null;
  name: string;
  plans?: Record<string, Array<Id>>;
  queues?: Array<Id>;
  slots: number;
  workflows: Array<string>;
};

export type RegisteredWorker = {
  lease_ms: number;
  now: Millis;
  worker: Id;
};

export type Relapse = {
  cause?: string | null;
  cause_before?: string | null;
  run: Id;
  step?: Path | null;
  what: string;
};

export type Released = {
  name: Id;
  released: boolean;
};

export type Request = "jump" | "cancel";

export type RequestReply = "answered" | "refused" | "unanswered" | "pending";

export type Requested = {
  answer?: Payload;
  event: Seq;
  id: string;
  name: string;
  refused?: string | null;
  reply: RequestReply;
  run: Id;
  status?: Status | null;
};

export type Resumed = {
  event: Seq;
  recovery: Recovery;
  run: Id;
  warning?: string | null;
};

export type RetryPolicy = {
  attempts_max: number;
  factor_permille: number;
  initial_ms: number;
  jitter_permille: number;
  pause_max_ms: number;
};

export type Rotated = {
  rotated_at: Millis;
};

export type Scope = "read" | "start" | "signal" | "operate" | "worker" | "admin";

export type Seam = {
  at: Millis;
  cut?: Cut | null;
  evidence?: string | null;
  kind: string;
  rule?: string | null;
  what: string;
};

export type Seq = number;

export type Severity = "info" | "warning" | "error" | "critical";

export type ShownPass = {
  expires_at: Millis;
  question?: OpenQuestion | null;
  run: Id;
  signal?: Id | null;
};

export type Signalled = {
  event: Seq;
  run: Id;
  signal: Id;
  warning?: string | null;
};

export type SpanKind = "queue" | "work" | "failure" | "wait" | "pause";

export type Spread = {
  max: number;
  p50: number;
  p99: number;
};

export type StaleLock = {
  lock: Lock;
  why: string;
};

export type Started = {
  run: Id;
  status: Status;
  workflow: Id;
};

export type Stats = {
  at: Millis;
  complete: boolean;
  counted: number;
  flaws: Array<Flaw>;
  queues: Array<QueueStats>;
  unserved?: Array<UnservedRuns> | null;
};

export type Status = "queued" | "running" | "waiting" | "sleeping" | "paused" | "compensating" | "parked" | "completed" | "failed" | "cancelled";

export type StatusCount = {
  count: number;
  status: Status;
};

export type Statuses = {
  items: Array<StatusCount>;
  total: number;
};

export type Step = {
  attempts: number;
  began: Millis;
  child?: string | null;
  ended?: Millis | null;
  event?: Seq;
  kind: StepKind;
  note?: string | null;
  path: string;
  queue?: string | null;
  retry?: RetryPolicy | null;
  retry_at?: Millis | null;
  spans?: Array<StepSpan>;
  state: StepState;
  task?: string | null;
};

export type StepKind = "step" | "remote" | "group" | "wait" | "question" | "sleep" | "undo";

export type StepSpan = {
  attempt?: number | null;
  error?: string | null;
  from: Millis;
  kind: SpanKind;
  lost?: boolean;
  node?: Id | null;
  to?: Millis | null;
};

export type StepState = "open" | "done" | "failed";

export type Suggestion = {
  count: number;
  value: string;
};

export type Summary = {
  alone?: boolean;
  answered?: Array<AnsweredAt>;
  as_of: Seq;
  attempt?: number;
  attributes?: Record<string, unknown>;
  attributes_at?: Seq | null;
  base?: Seq;
  branch: BranchId;
  bytes?: number | null;
  cancel?: string | null;
  cancel_asked?: Asked | null;
  claimed_at?: Millis | null;
  compensating?: boolean;
  created_at: Millis;
  cut_off?: Array<OpenInput>;
  deadline?: Millis | null;
  epoch: Seq;
  failed_step?: Path | null;
  finished_at?: Millis | null;
  head: Hash;
  initial_version: number;
  input_hash: Hash;
  inputs?: Array<OpenInput>;
  jump?: PendingJump | null;
  lane?: Id | null;
  last_event_at: Millis;
  lived_ms?: number | null;
  mail_count?: number;
  mail_ids?: Array<string>;
  mail_unread?: number;
  owner?: Id | null;
  parent?: Id | null;
  parked?: boolean;
  paused?: boolean;
  priority?: number;
  pruned?: Pruned | null;
  published?: Record<string, PublishedAt>;
  queue: Id;
  recovered_at?: Millis | null;
  recoveries?: number;
  recovery?: RecoveryPolicy | null;
  run: Id;
  start_at?: Millis | null;
  started?: boolean;
  status: Status;
  step?: Path | null;
  steps?: number;
  tags?: Record<string, string>;
  terminated?: boolean;
  timed_out?: boolean;
  trouble?: Trouble | null;
  under_way?: Array<Path>;
  version: number;
  waits?: Array<OpenWait>;
  workflow: Id;
};

export type Sweep = {
  at: Moment;
  foreign?: ForeignSweep | null;
  healed: number;
  healthy: number;
  more?: boolean;
  rows_rewritten: number;
  scanned: number;
  stalled: Array<Finding>;
  terminal: number;
};

export type Task = {
  attempts?: number;
  attempts_max?: number;
  audit?: Array<Audit>;
  changed_at: Millis;
  created_at: Millis;
  deliveries?: number;
  failure?: Failure | null;
  fence?: number;
  heartbeat_at?: Millis | null;
  id: Id;
  key?: string | null;
  kind: string;
  lane?: Id | null;
  owner?: string | null;
  payload: Payload;
  poked?: boolean;
  priority?: number;
  queue: Id;
  result?: Payload;
  run?: Id | null;
  run_at: Millis;
  silence_max?: unknown | null;
  started_at?: Millis | null;
  state: TaskState;
  step?: TaskStep | null;
  version: number;
};

export type TaskState = "ready" | "claimed" | "completed" | "failed" | "cancelled" | "dead";

export type TaskStep = {
  attempt: number;
  key: string;
  path: Path;
  trace?: TraceContext | null;
};

export type Terminated = {
  children?: Array<Id>;
  note: Note;
  remote?: Array<Path>;
  standing?: Array<Path>;
  undoing?: Array<Path>;
  unknown?: string | null;
};

export type TerminatedRun = {
  event: Seq;
  left: Terminated;
  run: Id;
};

export type TraceContext = {
  traceparent: string;
  tracestate?: string | null;
};

export type Trouble = {
  cause: string;
  code?: string | null;
  message: string;
  step?: Path | null;
};

export type UnreadableItem = {
  id: string;
  reason: string;
  status: string;
};

export type UnservedRuns = {
  needs: string;
  queued: number;
  queues: Array<Id>;
  runs: Array<Id>;
  since_ms: Millis;
  waits_for: string;
  workflow: string;
};

export type UsePass = {
  by?: string | null;
  payload?: Payload;
};

export type UsedPass = {
  event: Seq;
  run: Id;
};

export type Verb = "retry" | "resume" | "cancel" | "pause" | "recover" | "signal";

export type Withdrawn = {
  event: Seq;
  run: Id;
  what: Request;
};

export type WorkerAppend = {
  after: Seq;
  doings: Array<WorkerDoing>;
  id: string;
  token: string;
};

export type WorkerAppended = {
  end: Seq;
  events: Array<ExecutionEvent>;
  leaving: boolean;
  more: boolean;
  next?: Execution | null;
  now: Millis;
  outcome: ExecutionOutcome;
  repeated: boolean;
  why?: string | null;
};

export type WorkerDoing = WorkerDoingStepStarted | WorkerDoingStepCompleted | WorkerDoingStepFailed | WorkerDoingStepHandedOut | WorkerDoingWait | WorkerDoingSleep | WorkerDoingCheck | WorkerDoingChild | WorkerDoingPublish | WorkerDoingAnswerRequest | WorkerDoingProgress | WorkerDoingAttributes | WorkerDoingChange | WorkerDoingUndoStarted | WorkerDoingUndoCompleted | WorkerDoingUndoFailed | WorkerDoingFinishJump | WorkerDoingContinueAsNew | WorkerDoingComplete | WorkerDoingFail | WorkerDoingCancelled | WorkerDoingPark | WorkerDoingRelease;

export type WorkerDoingAnswerRequest = {
  answer_request: {
    answer?: Payload;
    ord: number;
    path: Path;
    refused?: string | null;
    request: string;
  };
};

export type WorkerDoingAttributes = {
  attributes: {
    ord: number;
    path: Path;
    removed?: Array<string>;
    set?: Record<string, unknown>;
  };
};

export type WorkerDoingCancelled = {
  cancelled: unknown;
};

export type WorkerDoingChange = {
  change: {
    ord: number;
    path: Path;
  };
};

export type WorkerDoingCheck = {
  check: {
    path: Path;
  };
};

export type WorkerDoingChild = {
  child: {
    detached?: boolean;
    input: Payload;
    ord: number;
    path: Path;
    start?: ChildStart | null;
    undo?: boolean;
    workflow: Id;
  };
};

export type WorkerDoingComplete = {
  complete: {
    output: Payload;
  };
};

export type WorkerDoingContinueAsNew = {
  continue_as_new: {
    input: Payload;
  };
};

export type WorkerDoingFail = {
  fail: {
    failure: Failure;
  };
};

export type WorkerDoingFinishJump = {
  finish_jump: unknown;
};

export type WorkerDoingPark = {
  park: {
    code: WorkerTrouble;
    reason: string;
  };
};

export type WorkerDoingProgress = {
  progress: {
    message: string;
    ord: number;
    path: Path;
  };
};

export type WorkerDoingPublish = {
  publish: {
    name: Id;
    ord: number;
    path: Path;
    value: Payload;
  };
};

export type WorkerDoingRelease = {
  release: {
    reason: WorkerRelease;
  };
};

export type WorkerDoingSleep = {
  sleep: {
    ord: number;
    path: Path;
    span_ms?: number | null;
    until?: Millis | null;
  };
};

export type WorkerDoingStepCompleted = {
  step_completed: {
    attempt: number;
    group?: boolean;
    input?: Hash | null;
    ord: number;
    output: Payload;
    path: Path;
    took_ms?: number;
    undo?: boolean;
  };
};

export type WorkerDoingStepFailed = {
  step_failed: {
    attempt: number;
    failure: Failure;
    group?: boolean;
    input?: Hash | null;
    ord: number;
    path: Path;
    retry?: RetryPolicy | null;
    timeout?: AttemptTimeout | null;
    took_ms?: number;
  };
};

export type WorkerDoingStepHandedOut = {
  step_handed_out: {
    attempt: number;
    lane?: Id | null;
    ord: number;
    path: Path;
    payload: Payload;
    priority?: number;
    queue?: Id | null;
    retry?: RetryPolicy | null;
    silence_ms?: number | null;
    undo?: boolean;
  };
};

export type WorkerDoingStepStarted = {
  step_started: {
    attempt: number;
    input?: Hash | null;
    ord: number;
    path: Path;
  };
};

export type WorkerDoingUndoCompleted = {
  undo_completed: {
    path: Path;
  };
};

export type WorkerDoingUndoFailed = {
  undo_failed: {
    failure: Failure;
    path: Path;
  };
};

export type WorkerDoingUndoStarted = {
  undo_started: {
    failure?: Failure | null;
    path: Path;
  };
};

export type WorkerDoingWait = {
  wait: {
    ask?: WorkerQuestion | null;
    children?: Array<Id>;
    ord: number;
    path: Path;
    schemas?: Record<string, unknown>;
    signals?: Array<Id>;
    timeout_ms?: number | null;
  };
};

export type WorkerHeartbeat = {
  holding?: Array<WorkerHolding>;
  wait_ms?: number;
};

export type WorkerHolding = {
  after: Seq;
  token: string;
};

export type WorkerNews = {
  leaving: boolean;
  lost: Array<string>;
  news: Array<ExecutionNews>;
  now: Millis;
};

export type WorkerQuestion = {
  form: Form;
  prompt: string;
};

export type WorkerRelease = "unload" | "paused" | "hand_over" | "unfit";

export type WorkerTrouble = "V1" | "E2" | "GS0112" | "GS0115";

export type Workflow = {
  name: Id;
  nodes: number;
  queues?: Array<string> | null;
  versions: Array<number>;
};

export type Wrong = {
  automatic: boolean;
  code: Code;
  event: Seq;
  evidence: string;
  remedy: string;
  rule_name?: string | null;
};

export interface Routes {
  "GET /healthz": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: unknown;
  };
  "GET /metrics": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: unknown;
  };
  "GET /readyz": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: unknown;
  };
  "GET /v1/activity": {
    path: {
    
    };
    query: {
      since_ms?: number;
      interval_ms?: number;
    };
    body: undefined;
    reply: Activity;
  };
  "POST /v1/callbacks/{ticket}": {
    path: {
      ticket: string;
    };
    query: {
    
    };
    body: unknown;
    reply: UsedPass;
  };
  "GET /v1/changes": {
    path: {
    
    };
    query: {
      after?: number;
      wait_ms?: number;
    };
    body: undefined;
    reply: Mark;
  };
  "GET /v1/codes/{code}": {
    path: {
      code: string;
    };
    query: {
    
    };
    body: undefined;
    reply: unknown;
  };
  "GET /v1/doctor": {
    path: {
    
    };
    query: {
      after?: string;
      rule?: Code;
    };
    body: undefined;
    reply: Checkup;
  };
  "POST /v1/doctor": {
    path: {
    
    };
    query: {
    
    };
    body: NewCheckup;
    reply: Checkup;
  };
  "GET /v1/events": {
    path: {
    
    };
    query: {
      from?: "start" | "now";
      changes?: boolean;
    };
    body: undefined;
    reply: unknown;
  };
  "POST /v1/executions/append": {
    path: {
    
    };
    query: {
    
    };
    body: WorkerAppend;
    reply: WorkerAppended;
  };
  "POST /v1/executions/events": {
    path: {
    
    };
    query: {
    
    };
    body: EventsWanted;
    reply: ExecutionNews;
  };
  "GET /v1/failures": {
    path: {
    
    };
    query: {
      where?: string;
    };
    body: undefined;
    reply: Failures;
  };
  "GET /v1/groups": {
    path: {
    
    };
    query: {
      by?: string;
      where?: string;
      limit?: number;
    };
    body: undefined;
    reply: Groups;
  };
  "GET /v1/key": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: CurrentKey;
  };
  "GET /v1/keys": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Items_Key;
  };
  "POST /v1/keys": {
    path: {
    
    };
    query: {
    
    };
    body: NewKey;
    reply: MadeKey;
  };
  "POST /v1/keys/{key}/revoke": {
    path: {
      key: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Key;
  };
  "GET /v1/locks": {
    path: {
    
    };
    query: {
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Lock;
  };
  "GET /v1/locks/stale": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Items_StaleLock;
  };
  "GET /v1/locks/{lock}": {
    path: {
      lock: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Lock;
  };
  "POST /v1/locks/{lock}/acquire": {
    path: {
      lock: string;
    };
    query: {
    
    };
    body: NewHold;
    reply: Lock;
  };
  "POST /v1/locks/{lock}/extend": {
    path: {
      lock: string;
    };
    query: {
    
    };
    body: Extension;
    reply: Lock;
  };
  "POST /v1/locks/{lock}/release": {
    path: {
      lock: string;
    };
    query: {
    
    };
    body: NewRelease;
    reply: Released;
  };
  "GET /v1/nodes": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Items_Node;
  };
  "GET /v1/openapi.json": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: unknown;
  };
  "GET /v1/operations": {
    path: {
    
    };
    query: {
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Operation;
  };
  "POST /v1/operations": {
    path: {
    
    };
    query: {
    
    };
    body: NewOperation;
    reply: Operation;
  };
  "POST /v1/operations/preview": {
    path: {
    
    };
    query: {
    
    };
    body: NewOperation;
    reply: Preview;
  };
  "GET /v1/operations/{run}": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Operation;
  };
  "POST /v1/operations/{run}/pause": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Operation;
  };
  "POST /v1/operations/{run}/resume": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Operation;
  };
  "POST /v1/operations/{run}/stop": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Operation;
  };
  "GET /v1/pass": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: ShownPass;
  };
  "POST /v1/pass": {
    path: {
    
    };
    query: {
    
    };
    body: UsePass;
    reply: UsedPass;
  };
  "POST /v1/passes/rotate": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Rotated;
  };
  "GET /v1/prune": {
    path: {
    
    };
    query: {
      completed_before_ms: number;
      workflow?: string;
      status?: string;
      limit?: number;
    };
    body: undefined;
    reply: PrunePlan;
  };
  "POST /v1/prune": {
    path: {
    
    };
    query: {
    
    };
    body: NewPrune;
    reply: PruneReport;
  };
  "GET /v1/questions": {
    path: {
    
    };
    query: {
      workflow?: string;
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Question;
  };
  "GET /v1/queues": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Stats;
  };
  "GET /v1/recoveries": {
    path: {
    
    };
    query: {
      since_ms?: number;
      ended?: boolean;
      rule?: string;
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Healing;
  };
  "GET /v1/recoveries/stats": {
    path: {
    
    };
    query: {
      since_ms?: number;
      latest?: number;
    };
    body: undefined;
    reply: Items_HealingStats;
  };
  "GET /v1/runs": {
    path: {
    
    };
    query: {
      status?: string;
      workflow?: string;
      tag?: string;
      where?: string;
      since_ms?: number;
      cause?: string;
      parent?: string;
      order?: "newest" | "oldest" | "recovered";
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Summary;
  };
  "POST /v1/runs": {
    path: {
    
    };
    query: {
    
    };
    body: NewRun;
    reply: Started;
  };
  "GET /v1/runs/{run}": {
    path: {
      run: string;
    };
    query: {
      at?: number;
      branch?: string;
    };
    body: undefined;
    reply: Detail;
  };
  "GET /v1/runs/{run}/branches": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Items_BranchItem;
  };
  "POST /v1/runs/{run}/cancel": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Cancelled;
  };
  "GET /v1/runs/{run}/diff": {
    path: {
      run: string;
    };
    query: {
      left: string;
      right: string;
    };
    body: undefined;
    reply: Diff;
  };
  "GET /v1/runs/{run}/events": {
    path: {
      run: string;
    };
    query: {
      after?: number;
    };
    body: undefined;
    reply: unknown;
  };
  "GET /v1/runs/{run}/history": {
    path: {
      run: string;
    };
    query: {
      branch?: string;
      after?: number;
      limit?: number;
    };
    body: undefined;
    reply: History;
  };
  "POST /v1/runs/{run}/jump": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewJump;
    reply: Jumped;
  };
  "POST /v1/runs/{run}/migrate": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewMigration;
    reply: Done;
  };
  "POST /v1/runs/{run}/note": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Done;
  };
  "POST /v1/runs/{run}/passes": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewPass;
    reply: MadePass;
  };
  "POST /v1/runs/{run}/pause": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Done;
  };
  "GET /v1/runs/{run}/published": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Items_PublishedValue;
  };
  "GET /v1/runs/{run}/published/{name}": {
    path: {
      run: string;
      name: string;
    };
    query: {
    
    };
    body: undefined;
    reply: PublishedValue;
  };
  "GET /v1/runs/{run}/questions": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Items_Question;
  };
  "GET /v1/runs/{run}/questions/{question}": {
    path: {
      run: string;
      question: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Question;
  };
  "POST /v1/runs/{run}/questions/{question}/answer": {
    path: {
      run: string;
      question: string;
    };
    query: {
    
    };
    body: NewAnswer;
    reply: Answered;
  };
  "POST /v1/runs/{run}/recover": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewRecovery;
    reply: Recovery;
  };
  "GET /v1/runs/{run}/remedies": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Items_Recovery;
  };
  "GET /v1/runs/{run}/requests/{name}": {
    path: {
      run: string;
      name: string;
    };
    query: {
      id: string;
      event?: number;
      wait_ms?: number;
    };
    body: undefined;
    reply: Requested;
  };
  "POST /v1/runs/{run}/requests/{name}": {
    path: {
      run: string;
      name: string;
    };
    query: {
    
    };
    body: NewRequest;
    reply: Requested;
  };
  "POST /v1/runs/{run}/requeue": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Done;
  };
  "POST /v1/runs/{run}/reset": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Branched;
  };
  "GET /v1/runs/{run}/result": {
    path: {
      run: string;
    };
    query: {
      wait_ms?: number;
    };
    body: undefined;
    reply: Ending;
  };
  "POST /v1/runs/{run}/resume": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Resumed;
  };
  "POST /v1/runs/{run}/retry": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewRetry;
    reply: Done;
  };
  "POST /v1/runs/{run}/signal": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewSignal;
    reply: Signalled;
  };
  "POST /v1/runs/{run}/terminate": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: TerminatedRun;
  };
  "POST /v1/runs/{run}/undo-recovery": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: Reason;
    reply: Branched;
  };
  "GET /v1/runs/{run}/why": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Explanation;
  };
  "POST /v1/runs/{run}/withdraw": {
    path: {
      run: string;
    };
    query: {
    
    };
    body: NewWithdrawal;
    reply: Withdrawn;
  };
  "GET /v1/statuses": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Statuses;
  };
  "GET /v1/suggestions": {
    path: {
    
    };
    query: {
      of: "workflow" | "tag" | "attribute" | "queue" | "cause";
      text?: string;
      limit?: number;
    };
    body: undefined;
    reply: Items_Suggestion;
  };
  "POST /v1/sweep": {
    path: {
    
    };
    query: {
    
    };
    body: NewSweep;
    reply: Sweep;
  };
  "GET /v1/tasks": {
    path: {
    
    };
    query: {
      queue?: string;
      state?: "ready" | "claimed" | "completed" | "failed" | "cancelled" | "dead";
      run?: string;
      owner?: string;
      after?: string;
      limit?: number;
    };
    body: undefined;
    reply: Page_Task;
  };
  "POST /v1/tasks": {
    path: {
    
    };
    query: {
    
    };
    body: NewTask;
    reply: Task;
  };
  "POST /v1/tasks/claim": {
    path: {
    
    };
    query: {
    
    };
    body: NewClaim;
    reply: Items_Claimed;
  };
  "POST /v1/tasks/reclaim": {
    path: {
    
    };
    query: {
    
    };
    body: NewReclaim;
    reply: Reclaimed;
  };
  "GET /v1/tasks/{task}": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Task;
  };
  "POST /v1/tasks/{task}/cancel": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: undefined;
    reply: Task;
  };
  "POST /v1/tasks/{task}/complete": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: NewResult;
    reply: Task;
  };
  "POST /v1/tasks/{task}/fail": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: NewFailure;
    reply: Task;
  };
  "POST /v1/tasks/{task}/heartbeat": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: NewHeartbeat;
    reply: Task;
  };
  "POST /v1/tasks/{task}/release": {
    path: {
      task: string;
    };
    query: {
    
    };
    body: Hold;
    reply: Task;
  };
  "POST /v1/workers": {
    path: {
    
    };
    query: {
    
    };
    body: RegisterWorker;
    reply: RegisteredWorker;
  };
  "DELETE /v1/workers/{worker}": {
    path: {
      worker: string;
    };
    query: {
    
    };
    body: undefined;
    reply: LeftWorker;
  };
  "POST /v1/workers/{worker}/claim": {
    path: {
      worker: string;
    };
    query: {
    
    };
    body: ClaimExecutions;
    reply: ClaimedExecutions;
  };
  "POST /v1/workers/{worker}/heartbeat": {
    path: {
      worker: string;
    };
    query: {
    
    };
    body: WorkerHeartbeat;
    reply: WorkerNews;
  };
  "GET /v1/workflows": {
    path: {
    
    };
    query: {
    
    };
    body: undefined;
    reply: Items_Workflow;
  };
}
