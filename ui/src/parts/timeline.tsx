// The timeline of a run: a row for each step, a bar for each attempt, and the seam in gold.

import { useMemo, useState } from "preact/hooks";
import type { Detail, Seam, Step, StepSpan, Task } from "../api-types";
import { axis, type Axis } from "../lib/axis";
import { plural, span, useNow } from "../lib/time";
import { Ago, At, CodeLink, Fact, Text } from "./basics";
import { Icon, type IconName } from "./icons";
import { Virtual } from "./virtual";

const ROW = 30;
const KIND_ICON: Record<Step["kind"], IconName> = { step: "running", remote: "api", group: "operation", wait: "waiting", question: "inbox", sleep: "sleeping", undo: "undo" };
const STATE_ICON: Record<Step["state"], IconName> = { open: "queued", done: "done", failed: "failed" };

export interface TimelineProps {
  detail: Detail;
  tasks: Task[];
  /** The last seam, with its controls. */
  seamActions(seam: Seam): preact.ComponentChildren;
}

/** Whether a seam is drawn in gold: a branch was cut, or a rule healed the run. */
export const isGold = (seam: Seam) => seam.cut != null || seam.kind === "recovered" || seam.kind === "taken over";

export function Timeline({ detail, tasks, seamActions }: TimelineProps) {
  const isOver = detail.finished_at != null;
  const now = useNow(isOver ? 60_000 : 1000);
  const end = detail.finished_at ?? now;
  const [open, setOpen] = useState<string>();
  const [seamAt, setSeamAt] = useState<number>();
  const seams = detail.seams.filter(isGold);
  const time = useMemo(() => {
    const until = (one: StepSpan) => one.to ?? end;
    const busy: Array<[number, number]> = [];
    for (const step of detail.steps) for (const one of step.spans ?? []) if (one.kind === "work" || one.kind === "failure") busy.push([one.from, until(one)]);
    for (const one of detail.spans ?? []) if (one.kind === "queue") busy.push([one.from, until(one)]);
    for (const seam of detail.seams) busy.push([seam.at, seam.at + 1]);
    return axis(busy, detail.created_at, end);
  }, [detail, end]);
  const chosen = seamAt === undefined ? undefined : seams[seamAt];
  const rows = detail.steps;
  const openRow = rows.find((row) => row.path === open);
  return (
    <div class="timeline">
      <Legend />
      <div class="timeline-box">
        <div class="timeline-axis" aria-hidden="true">
          <span class="name" />
          <span class="bars">
            {time.ticks.map(({ label, x }) => (
              <span key={x} class="tick num" style={{ left: `${x * 100}%` }}>{label}</span>
            ))}
          </span>
        </div>
        <RunRow detail={detail} time={time} end={end} />
        <Virtual
          count={rows.length}
          rowHeight={ROW}
          height={Math.max(240, innerHeight - 420)}
          fromEnd={rows.length > 200}
          label="Steps"
          role="list"
          row={(at) => <StepRow key={rows[at]!.path} row={rows[at]!} time={time} end={end} isOpen={open === rows[at]!.path} toggle={() => setOpen(open === rows[at]!.path ? undefined : rows[at]!.path)} />}
        />
        <div class="seams">
          {time.segments.filter((one) => one.isIdle).map((one) => (
            <span key={one.left} class="idle" style={{ left: `${one.left * 100}%`, width: `${(one.right - one.left) * 100}%` }} title={`${span(one.to - one.from)} idle`}>
              <span class="num">{span(one.to - one.from)} idle</span>
            </span>
          ))}
          {seams.map((seam, at) => (
            <button
              key={at}
              type="button"
              class={`seam ${seamAt === at ? "chosen" : ""}`}
              style={{ left: `${time.x(seam.at) * 100}%` }}
              aria-pressed={seamAt === at}
              aria-label={`Seam: ${seam.kind}${seam.rule ? ` by rule ${seam.rule}` : ""}`}
              title={seam.what}
              onClick={() => setSeamAt(seamAt === at ? undefined : at)}
            >
              <SeamLine />
            </button>
          ))}
        </div>
      </div>
      {rows.length === 0 && <p class="dim">No step has begun.</p>}
      {openRow && <StepDetail row={openRow} task={tasks.find((task) => task.id === openRow.task)} now={now} />}
      {chosen && <SeamDetail seam={chosen} actions={seamActions(chosen)} />}
      {!chosen && seams.length > 0 && (
        <ul class="seam-list" aria-label="Seams">
          {seams.map((seam, at) => (
            <li key={at}>
              <button type="button" class="quiet seam-button" onClick={() => setSeamAt(at)}>
                <span class="gold-mark"><Icon name="recover" /></span> {seam.kind} {seam.rule && <strong>{seam.rule}</strong>} <At at={seam.at} />
                {seam.cut && <span class="dim"> cut {seam.cut.from ?? "–"} → {seam.cut.to} after #{seam.cut.after}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A line like a repaired crack. */
export function SeamLine() {
  return (
    <svg class="seam-line" viewBox="0 0 12 200" preserveAspectRatio="none" aria-hidden="true">
      <path d="M6 0 L4 18 L8 34 L5 55 L7.5 80 L3.500 98 L6.500 120 L4.500 142 L8 160 L5 182 L6 200" />
    </svg>
  );
}

function Legend() {
  const items: Array<[string, string]> = [["queue", "waits for a node"], ["work", "attempt"], ["failure", "failed attempt"], ["pause", "pause before a retry"], ["wait", "wait or sleep"]];
  return (
    <p class="legend-row dim small-text">
      {items.map(([kind, label]) => <span key={kind}><span class={`bar-sample is-${kind}`} /> {label}</span>)}
      <span><span class="bar-sample is-seam" /> seam</span>
    </p>
  );
}

function Bars({ spans, time, end }: { spans: StepSpan[]; time: Axis; end: number }) {
  return (
    <span class="bars">
      {spans.map((one, at) => {
        const left = time.x(one.from);
        const right = time.x(one.to ?? end);
        const label = `${one.attempt ? `attempt ${one.attempt}, ` : ""}${one.kind} ${span((one.to ?? end) - one.from)}${one.error ? `: ${one.error}` : ""}`;
        return <span key={at} class={`bar is-${one.kind}${one.to == null ? " is-open" : ""}`} style={{ left: `${left * 100}%`, width: `max(3px, ${(right - left) * 100}%)` }} title={label} />;
      })}
    </span>
  );
}

function RunRow({ detail, time, end }: { detail: Detail; time: Axis; end: number }) {
  return (
    <div class="timeline-row run-row">
      <span class="name"><Icon name="bowl" /> run</span>
      <Bars spans={detail.spans ?? []} time={time} end={end} />
    </div>
  );
}

function StepRow({ row, time, end, isOpen, toggle }: { row: Step; time: Axis; end: number; isOpen: boolean; toggle(): void }) {
  const depth = Math.min(4, row.path.split("/").length - 1);
  return (
    <div role="listitem" class={`timeline-row is-${row.state}`}>
      <button type="button" class="name" aria-expanded={isOpen} onClick={toggle} title={row.path}>
        <span class="indent" style={{ width: `${depth * 10}px` }} />
        <Icon name={STATE_ICON[row.state]} />
        <span class="ellipsis"><Text value={row.path.split("/").pop() ?? row.path} /></span>
        {row.attempts > 1 && <span class="pill num">{row.attempts}×</span>}
      </button>
      <Bars spans={row.spans ?? []} time={time} end={end} />
    </div>
  );
}

function StepDetail({ row, task, now }: { row: Step; task: Task | undefined; now: number }) {
  const spans = row.spans ?? [];
  const pause = spans[spans.length - 1];
  const attempts = spans.filter((one) => one.attempt != null);
  return (
    <section class="card" aria-label={`Step ${row.path}`}>
      <h3><Icon name={KIND_ICON[row.kind]} /> <Text value={row.path} /></h3>
      <dl class="facts">
        <Fact name="kind">{row.kind}</Fact>
        <Fact name="state"><span class={`step-state is-${row.state}`}><Icon name={STATE_ICON[row.state]} /> {row.state}</span></Fact>
        <Fact name="began"><At at={row.began} /></Fact>
        <Fact name="took">{span((row.ended ?? now) - row.began)}</Fact>
        {row.queue && <Fact name="queue"><code><Text value={row.queue} /></code></Fact>}
        {task && <Fact name="task"><code>{task.id}</code> {task.state}{task.owner && <> by <Text value={task.owner} /></>}</Fact>}
        {task?.heartbeat_at != null && <Fact name="heartbeat"><Ago at={task.heartbeat_at} /></Fact>}
        {pause?.kind === "pause" && pause.to != null && pause.to > now && <Fact name="next attempt">in <span class="num">{span(pause.to - now)}</span></Fact>}
      </dl>
      {attempts.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Attempts">
          <table class="slim">
            <caption>{plural(attempts.length, "attempt")} in the log</caption>
            <thead><tr><th class="right">#</th><th>outcome</th><th>began</th><th class="right">took</th><th>node</th><th>error</th></tr></thead>
            <tbody>
              {attempts.map((one, at) => (
                <tr key={at}>
                  <td class="right num">{one.attempt}</td>
                  <td>{one.kind === "failure" ? "failed" : one.to == null ? "under way" : "done"}</td>
                  <td><At at={one.from} /></td>
                  <td class="right num">{span((one.to ?? now) - one.from)}</td>
                  <td class="mono dim">{one.node ?? ""}</td>
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

function SeamDetail({ seam, actions }: { seam: Seam; actions: preact.ComponentChildren }) {
  return (
    <section class="card seam-card" aria-label="Seam">
      <h3><span class="gold-mark"><Icon name="recover" /></span> {seam.kind} <At at={seam.at} /> {seam.rule && <CodeLink code={seam.rule} />}</h3>
      <p><Text value={seam.what} /></p>
      <dl class="facts">
        {seam.evidence && <Fact name="evidence"><Text value={seam.evidence} /></Fact>}
        {seam.cut && <Fact name="cut">{seam.cut.from ?? "–"} → {seam.cut.to}, after event #{seam.cut.after}</Fact>}
      </dl>
      <div class="actions">{actions}</div>
    </section>
  );
}
