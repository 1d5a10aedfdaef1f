// The timeline of a run: a row for each step, a bar for each attempt, and the seam in gold.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Detail, Node, Seam, Step, Task } from "../api-types";
import { apart, axis, busyOf, type Axis } from "../lib/axis";
import { call } from "../lib/api";
import { useLoad } from "../lib/load";
import { runHref } from "../lib/router";
import { type DrawnSpan, type Row, rowsOf } from "../lib/rows";
import { plural, span, useNow } from "../lib/time";
import { Ago, At, CodeLink, Fact, Folded, Text, useShown } from "./basics";
import { Icon, type IconName } from "./icons";
import { useRoom, Virtual } from "./virtual";

const ROW = 30;
const KIND_ICON: Record<Step["kind"], IconName> = { step: "running", remote: "api", group: "operation", wait: "waiting", question: "inbox", sleep: "sleeping", undo: "undo" };
const STATE_ICON: Record<Step["state"], IconName> = { open: "queued", done: "done", failed: "failed" };
const STATE_WORD: Record<Step["state"], string> = { open: "under way", done: "done", failed: "failed" };

export interface TimelineProps {
  detail: Detail;
  /** Other branches of the run: what they did is drawn pale. */
  others: ReadonlyMap<string, Detail>;
  tasks: Task[];
  nodes: Node[];
  /** Controls of a seam. */
  seamActions(seam: Seam): ComponentChildren;
}

/** Whether a seam is drawn in gold: a branch was cut, or a rule healed the run. A run that continued as new cut nothing. */
export const isGold = (seam: Seam) => seam.cut?.from != null || seam.kind === "recovered" || seam.kind === "taken over";

export function Timeline({ detail, others, tasks, nodes, seamActions }: TimelineProps) {
  const isOver = detail.finished_at != null;
  const now = useNow(isOver ? 60_000 : 1000);
  const end = detail.finished_at ?? now;
  const room = useRoom(420, 240);
  const [open, setOpen] = useState<string>();
  const [seamAt, setSeamAt] = useState<number>();
  const seams = detail.seams.filter(isGold);
  const rows = useMemo(() => rowsOf(detail, others), [detail, others]);
  // Ordered once: a long log has many spans, and the present moves on every second.
  const busy = useMemo(() => {
    const spans: Array<[number, number]> = [];
    const until = (one: { to?: number | null }) => one.to ?? Infinity;
    for (const row of rows) for (const one of row.spans) if (one.kind === "work" || one.kind === "failure") spans.push([one.from, until(one)]);
    for (const one of detail.spans ?? []) if (one.kind === "queue") spans.push([one.from, until(one)]);
    for (const seam of detail.seams) spans.push([seam.at, seam.at + 1]);
    return busyOf(spans);
  }, [rows, detail]);
  const time = useMemo(() => axis(busy, detail.created_at, end), [busy, end]);
  const chosen = seamAt === undefined ? undefined : seams[seamAt];
  const openRow = rows.find((row) => row.step.path === open);
  const taskOf = (step: Step) => tasks.find((task) => task.id === step.task);
  const owner = nodes.find((node) => node.id === detail.owner);
  return (
    <div class="timeline">
      <Legend hasLost={rows.some((row) => row.spans.some((one) => one.lost))} />
      <div class="timeline-box">
        <div class="timeline-axis" aria-hidden="true">
          <span class="name" />
          <span class="bars">
            {time.ticks.map(({ label, x }) => (
              <span key={x} class="tick num" style={{ left: `${x * 100}%` }}>{label}</span>
            ))}
            {time.segments.filter((one) => one.hasLabel).map((one) => (
              <span key={one.left} class="idle-label num" style={{ left: `${((one.left + one.right) / 2) * 100}%` }}>{span(one.to - one.from)}{one.isIdle ? " idle" : ", drawn shorter"}</span>
            ))}
          </span>
        </div>
        <div class="timeline-row run-row">
          <span class="name"><Icon name="bowl" /> run</span>
          <Bars spans={(detail.spans ?? []) as DrawnSpan[]} time={time} end={end} beat={owner && !isOver ? owner.beat_at : undefined} />
        </div>
        <Virtual
          count={rows.length}
          rowHeight={ROW}
          height={room}
          fromEnd={rows.length > 200}
          label="Steps"
          role="list"
          row={(at) => {
            const row = rows[at]!;
            const { path } = row.step;
            return <StepRow key={path} row={row} time={time} end={end} beat={taskOf(row.step)?.heartbeat_at ?? undefined} isOpen={open === path} toggle={() => setOpen(open === path ? undefined : path)} />;
          }}
        />
        <div class="seams">
          {time.segments.filter((one) => one.isIdle || one.isShort).map((one) => (
            <span key={one.left} class={one.isIdle ? "idle" : "shortened"} style={{ left: `${one.left * 100}%`, width: `${(one.right - one.left) * 100}%` }} />
          ))}
          {apart(seams.map((seam) => time.x(seam.at))).map(({ first, last, x }) => {
            const seam = seams[last]!;
            const more = last > first ? `, and ${last - first} more beside it` : "";
            const isChosen = seamAt !== undefined && first <= seamAt && seamAt <= last;
            return (
              <button
                key={first}
                type="button"
                class={`seam ${isChosen ? "chosen" : ""}`}
                style={{ left: `${x * 100}%` }}
                aria-pressed={isChosen}
                aria-label={`Seam: ${seam.kind}${seam.rule ? ` by rule ${seam.rule}` : ""}${more}`}
                title={`${seam.what}${more}`}
                onClick={() => setSeamAt(isChosen ? undefined : last)}
              >
                <SeamLine />
              </button>
            );
          })}
        </div>
      </div>
      {rows.length === 0 && <p class="dim">No step has begun.</p>}
      {openRow && <StepDetail run={detail.run} row={openRow} task={taskOf(openRow.step)} nodes={nodes} now={now} close={() => setOpen(undefined)} />}
      {chosen && <SeamDetail detail={detail} seam={chosen} actions={seamActions(chosen)} close={() => setSeamAt(undefined)} />}
      {!chosen && seams.length > 0 && (
        <Folded class="seam-list" label="Seams" what="seam" latest items={seams} row={(seam, at) => (
          <li key={at}>
            <button type="button" class="quiet seam-button" onClick={() => setSeamAt(at)}>
              <span class="gold-mark"><Icon name="recover" /></span>
              <strong>{seam.kind}{seam.rule && ` ${seam.rule}`}</strong>
              <At at={seam.at} />
              {seam.cut && <span class="dim">{seam.cut.from ?? "–"} → {seam.cut.to} after #{seam.cut.after}</span>}
            </button>
          </li>
        )} />
      )}
    </div>
  );
}

/** A line like a repaired crack. */
export function SeamLine() {
  return (
    <svg class="seam-line" viewBox="0 0 12 200" preserveAspectRatio="none" aria-hidden="true">
      <path d="M6 0 L4 18 L8 34 L5 55 L7.5 80 L3.5 98 L6.5 120 L4.5 142 L8 160 L5 182 L6 200" />
    </svg>
  );
}

const LEGEND: Array<[string, string]> = [["queue", "waits for a node"], ["work", "attempt"], ["failure", "failed attempt"], ["pause", "pause before a retry"], ["wait", "wait or sleep"]];

function Legend({ hasLost }: { hasLost: boolean }) {
  return (
    <p class="legend-row dim small-text">
      {LEGEND.map(([kind, label]) => <span key={kind}><span class={`bar-sample is-${kind}`} />{label}</span>)}
      {hasLost && <span><span class="bar-sample is-lost" />lost with its worker or branch</span>}
      <span><span class="bar-sample is-beat" />heartbeat</span>
      <span><span class="bar-sample is-seam" />seam</span>
    </p>
  );
}

function Bars({ spans, time, end, beat }: { spans: DrawnSpan[]; time: Axis; end: number; beat?: number | undefined }) {
  return (
    <span class="bars">
      {spans.map((one, at) => {
        const left = time.x(one.from);
        const right = time.x(one.to ?? end);
        const label = [one.attempt && `attempt ${one.attempt}`, `${one.kind} ${span((one.to ?? end) - one.from)}`, one.lost, one.error].filter(Boolean).join(", ");
        return <span key={at} class={`bar is-${one.kind}${one.to == null ? " is-open" : ""}${one.lost ? " is-lost" : ""}`} style={{ left: `${left * 100}%`, width: `max(3px, ${(right - left) * 100}%)` }} title={label} />;
      })}
      {beat !== undefined && beat <= end && <span class="beat" style={{ left: `${time.x(beat) * 100}%` }} title="last heartbeat" />}
    </span>
  );
}

function StepRow({ row, time, end, beat, isOpen, toggle }: { row: Row; time: Axis; end: number; beat: number | undefined; isOpen: boolean; toggle(): void }) {
  const { step } = row;
  const depth = Math.min(4, step.path.split("/").length - 1);
  return (
    <div role="listitem" class={`timeline-row is-${row.lost ? "cut" : step.state}${isOpen ? " chosen" : ""}`}>
      <button type="button" class="name" aria-expanded={isOpen} onClick={toggle} title={step.path}>
        <span class="indent" style={{ width: `${depth * 10}px` }} />
        <Icon name={row.lost ? "cancelled" : STATE_ICON[step.state]} />
        <span class="ellipsis"><Text value={step.path.split("/").pop() ?? step.path} /></span>
        <span class="unseen">{row.lost ?? STATE_WORD[step.state]}</span>
        {step.attempts > 1 && <span class="pill num">{step.attempts}×</span>}
      </button>
      <Bars spans={row.spans} time={time} end={end} beat={step.state === "open" ? beat : undefined} />
    </div>
  );
}

const OUTCOME = (one: DrawnSpan) => (one.kind === "failure" ? "failed" : one.lost ? one.lost : one.to == null ? "under way" : "done");

function StepDetail({ run, row, task, nodes, now, close }: { run: string; row: Row; task: Task | undefined; nodes: Node[]; now: number; close(): void }) {
  const { step, spans } = row;
  const ref = useShown(step.path);
  const attempts = spans.filter((one) => one.attempt != null).sort((a, b) => a.from - b.from);
  const named = (id: string) => nodes.find((node) => node.id === id)?.name;
  return (
    <section ref={ref} class="card" aria-label={`Step ${step.path}`}>
      <header class="card-head">
        <h2><Icon name={KIND_ICON[step.kind]} /> <span class="mono"><Text value={step.path} /></span></h2>
        <button type="button" class="quiet small" aria-label="Close the step" onClick={close}><Icon name="close" /></button>
      </header>
      <dl class="facts">
        <Fact name="kind">{step.kind}</Fact>
        <Fact name="state">{row.lost ? row.lost : <span class={`step-state is-${step.state}`}><Icon name={STATE_ICON[step.state]} /> {STATE_WORD[step.state]}</span>}</Fact>
        <Fact name="began"><At at={step.began} /></Fact>
        <Fact name={step.ended == null ? "for" : "took"}><span class="num">{span((step.ended ?? now) - step.began)}</span></Fact>
        {step.queue && <Fact name="queue"><code><Text value={step.queue} /></code></Fact>}
        {task && <Fact name="task"><code>{task.id}</code> {task.state}{task.owner && <> by <Text value={task.owner} /></>}</Fact>}
        {(step.retry || step.kind === "step") && (
          <Fact name="retry policy">
            {step.retry ? <span class="num">up to {plural(step.retry.attempts_max, "attempt")}, pauses {span(step.retry.initial_ms)} to {span(step.retry.pause_max_ms)}</span> : <span class="dim">not in the log: no attempt failed and was retried</span>}
          </Fact>
        )}
        {task?.heartbeat_at != null && <Fact name="heartbeat"><Ago at={task.heartbeat_at} /></Fact>}
        {step.retry_at != null && step.retry_at > now && <Fact name="next attempt">in <span class="num">{span(step.retry_at - now)}</span></Fact>}
        {step.event != null && <Fact name="latest event"><a class="num" href={runHref(run, { tab: "events", event: String(step.event) })}>#{step.event}</a></Fact>}
        {step.note && <Fact name="latest error"><Text value={step.note} /></Fact>}
      </dl>
      {attempts.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Attempts">
          <table class="slim">
            <caption>{plural(attempts.length, "attempt")} in the log</caption>
            <thead><tr><th class="right">#</th><th>outcome</th><th>began</th><th class="right">took</th><th>worker</th><th>error</th></tr></thead>
            <tbody>
              {attempts.map((one, at) => (
                <tr key={at}>
                  <td class="right num">{one.attempt}</td>
                  <td class="nowrap">{OUTCOME(one)}</td>
                  <td><At at={one.from} /></td>
                  <td class="right num">{span((one.to ?? now) - one.from)}</td>
                  <td class="mono dim nowrap">{one.node ? (named(one.node) ?? one.node) : ""}</td>
                  <td><Text value={one.error ?? ""} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function SeamDetail({ detail, seam, actions, close }: { detail: Detail; seam: Seam; actions: ComponentChildren; close(): void }) {
  const ref = useShown(seam);
  const opened = detail.branches.find((one) => one.branch === seam.cut?.to)?.opened;
  // The feed of recoveries knows the event of a seam that cut no branch.
  const isRecovery = seam.kind === "recovered";
  const healing = useLoad(isRecovery ? `healing ${detail.run} ${seam.at}` : undefined, async () => {
    const { items } = await call("GET /v1/recoveries", { rule: seam.rule ?? "", since_ms: seam.at, limit: 500 });
    return items.find((one) => one.run === detail.run && one.at_ms === seam.at);
  }).data;
  const event = (seq: number) => <a class="num" href={runHref(detail.run, { tab: "events", event: String(seq) })}>#{seq}</a>;
  return (
    <section ref={ref} class="card seam-card" aria-label="Seam">
      <header class="card-head">
        <h2><span class="gold-mark"><Icon name="recover" /></span> {seam.kind} {seam.rule && <CodeLink code={seam.rule} />} <span class="dim"><At at={seam.at} /></span></h2>
        <button type="button" class="quiet small" aria-label="Close the seam" onClick={close}><Icon name="close" /></button>
      </header>
      <p><Text value={seam.what} /></p>
      <dl class="facts">
        {seam.evidence && <Fact name="evidence"><Text value={seam.evidence} /></Fact>}
        {seam.cut && <Fact name="cut">{seam.cut.from ?? "–"} → {seam.cut.to}, after event {event(seam.cut.after)}</Fact>}
        {healing && <Fact name="detected after"><span class="num">{span(healing.stalled_ms)}</span></Fact>}
        {healing?.heal_ms != null && <Fact name="healed in"><span class="num">{span(healing.heal_ms)}</span></Fact>}
        {(healing?.event ?? opened) != null && <Fact name="recorded as">event {event((healing?.event ?? opened)!)}</Fact>}
      </dl>
      <div class="actions">{actions}</div>
    </section>
  );
}
