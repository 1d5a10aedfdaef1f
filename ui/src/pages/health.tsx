// Health: one sentence of truth, and what it is made of.

import { useEffect, useState } from "preact/hooks";
import type { Activity, Checkup, Healing, Interval, Status } from "../api-types";
import { address, call, may } from "../lib/api";
import { onEvent } from "../lib/feed";
import { useLoad } from "../lib/load";
import { href } from "../lib/router";
import { age, count, plural, span, useNow } from "../lib/time";
import { Action } from "../parts/actions";
import { Ago, Busy, CodeLink, Page, Problem, RunLink, StatusMark, Text } from "../parts/basics";
import { Chart } from "../parts/chart";
import { Icon } from "../parts/icons";

const ACTIVE: Status[] = ["running", "queued", "waiting", "sleeping", "paused", "compensating", "parked"];
const ENDED: Status[] = ["completed", "failed", "cancelled"];

export default function Health() {
  const statuses = useLoad("statuses", () => call("GET /v1/statuses"), { live: (event) => /^(run|wait)\.|^timer\.set$/.test(event.type) });
  const questions = useLoad("questions", () => call("GET /v1/questions", { limit: 500 }), { live: (event) => /^(input|run)\./.test(event.type) });
  const latest = useLoad("latest", () => call("GET /v1/recoveries", { limit: 5 }), { live: (event) => event.type === "run.recovered" || event.type === "run.claimed" });
  const checkup = useLoad("doctor", examine, { live: (event) => /^run\.(recovered|parked|failed|completed|released)$/.test(event.type) });
  const nodes = useLoad("nodes", () => call("GET /v1/nodes"), { live: (event) => event.type === "run.claimed" || event.type === "run.recovered" });
  const queues = useLoad("queues", () => call("GET /v1/queues"), { live: (event) => /^(run|step)\./.test(event.type) });
  const activity = useActivity();
  const error = statuses.error ?? questions.error ?? latest.error ?? checkup.error ?? nodes.error ?? queues.error;
  const counts = new Map(statuses.data?.items.map((one) => [one.status, one.count]));
  return (
    <Page title="Health" command="goldseam doctor" json={address("GET /v1/doctor")}>
      {error && !error.isOffline && <Problem error={error} />}
      <Sentence
        counts={statuses.data && counts}
        asking={questions.data && new Set(questions.data.items.map((one) => one.run)).size}
        isMore={questions.data?.next != null}
        latest={latest.data?.items[0]}
        checkup={checkup.data}
        activity={activity}
      />
      <ul class="tiles">
        {[...ACTIVE, ...ENDED].map((status) => (
          <li key={status} class={counts.get(status) ? "" : "zero"}>
            <a href={href(["runs"], { status })}>
              <StatusMark status={status} />
              <strong class="num">{statuses.data ? count(counts.get(status) ?? 0) : "·"}</strong>
            </a>
          </li>
        ))}
      </ul>
      <div class="columns wide-left">
        <section class="card">
          <h2>Per minute, last hour</h2>
          {activity ? (
            <Chart
              label="Runs per minute"
              times={activity.intervals.map((one) => one.at)}
              series={[
                { label: "started", color: "ink-dim", values: pick(activity, "started") },
                { label: "completed", color: "good", values: pick(activity, "completed") },
                { label: "failed", color: "bad", values: pick(activity, "failed"), dash: [6, 3] },
                { label: "recovered", color: "gold", values: pick(activity, "recovered"), dash: [2, 3] },
              ]}
            />
          ) : (
            <Busy />
          )}
          {activity && !activity.complete && <p class="dim small-text">More happened than this plot counts.</p>}
        </section>
        <section class="card">
          <h2>Healing, last hour</h2>
          <Spreads activity={activity} />
          <h3 class="sub">Latest</h3>
          {latest.data?.items.length ? (
            <ul class="lines-list">
              {latest.data.items.map((one) => (
                <li key={`${one.run}${one.at_ms}${one.task}`}>
                  <span class="gold-mark"><Icon name="recover" /></span>
                  <CodeLink code={one.rule} name={one.rule_name} />
                  <span class="ellipsis">{one.run ? <RunLink run={one.run} /> : <Text value={one.task ?? one.lock ?? one.state ?? ""} />}</span>
                  <span class="dim end"><Ago at={one.at_ms} /></span>
                </li>
              ))}
            </ul>
          ) : (
            <p class="dim">No recovery yet. To see one: <code>goldseam demo</code></p>
          )}
          <p class="end-link"><a href={href(["recoveries"])}>All recoveries</a></p>
        </section>
      </div>
      <div class="columns">
        <Findings checkup={checkup.data} again={checkup.again} />
        <section class="card">
          <h2>Nodes {nodes.data && <span class="pill num">{nodes.data.items.filter((node) => node.alive).length} live</span>}</h2>
          {nodes.data ? (
            <>
              <table class="slim">
                <thead><tr><th>node</th><th class="right">running</th><th class="right">slots</th></tr></thead>
                <tbody>
                  {nodes.data.items.filter((node) => node.alive).slice(0, 6).map((node) => (
                    <tr key={node.id}>
                      <th scope="row" class="mono"><Text value={node.name} /></th>
                      <td class="right num">{node.running ?? "–"}</td>
                      <td class="right num">{count(node.slots)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {nodes.data.items.every((node) => !node.alive || node.workflows.length === 0) && (
                <p class="warn-text"><Icon name="warn" /> No live node has a workflow: queued runs wait.</p>
              )}
              <p class="end-link"><a href={href(["queues"])}>All nodes</a></p>
            </>
          ) : (
            <Busy />
          )}
        </section>
        <section class="card">
          <h2>Queues</h2>
          {queues.data ? (
            queues.data.queues.length ? (
              <table class="slim">
                <thead><tr><th>queue</th><th class="right">due</th><th class="right">claimed</th><th class="right">oldest</th></tr></thead>
                <tbody>
                  {queues.data.queues.slice(0, 6).map((queue) => (
                    <tr key={queue.queue}>
                      <th scope="row"><a class="mono" href={href(["queues"], { queue: queue.queue })}><Text value={queue.queue} /></a></th>
                      <td class="right num">{count(queue.due)}</td>
                      <td class="right num">{count(queue.claimed)}</td>
                      <td class="right num">{queue.oldest_ms == null ? "–" : span(queue.oldest_ms)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ) : (
              <p class="dim">All queues are empty.</p>
            )
          ) : (
            <Busy />
          )}
          <p class="end-link"><a href={href(["queues"])}>Queues and locks</a></p>
        </section>
      </div>
    </Page>
  );
}

/** Parts of the store that one visit examines. */
const PARTS_MAX = 5;

/** Examines the store, or its first parts if it is large. */
async function examine(abort: AbortSignal): Promise<Checkup> {
  let all = await call("GET /v1/doctor", {}, { abort });
  for (let part = 1; all.next != null && part < PARTS_MAX; part++) {
    const more = await call("GET /v1/doctor", { after: all.next }, { abort });
    all = { ...more, findings: [...all.findings, ...more.findings], scanned: all.scanned + more.scanned, healthy: all.healthy && more.healthy };
  }
  return all;
}

/** Time to detect and to heal: the median, and what all but one in a hundred took. */
function Spreads({ activity }: { activity: Activity | undefined }) {
  const rows = [["time to detect", activity?.stalled_ms], ["time to heal", activity?.heal_ms]] as const;
  const isEmpty = activity?.intervals.every((one) => one.recovered === 0);
  const shown = (ms: number | undefined) => (ms === undefined ? "·" : isEmpty ? "–" : span(ms));
  return (
    <table class="slim spreads">
      <thead><tr><th><span class="unseen">time</span></th><th class="right">p50</th><th class="right">p99</th></tr></thead>
      <tbody>
        {rows.map(([name, spread]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="right num">{shown(spread?.p50)}</td>
            <td class="right num">{shown(spread?.p99)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const pick = (activity: Activity, field: Exclude<keyof Interval, "at">) => activity.intervals.map((one) => one[field]);

/** The counts of the last hour, kept up to date by the feed. */
function useActivity(): Activity | undefined {
  const loaded = useLoad("activity", () => call("GET /v1/activity"));
  const [extra, setExtra] = useState<Array<{ at: number; field: Exclude<keyof Interval, "at"> }>>([]);
  const minute = Math.floor(useNow(5000) / 60_000);
  useEffect(
    () =>
      onEvent((event) => {
        if (!event) return;
        const field = FIELDS[event.type];
        if (field) setExtra((all) => [...all, { at: event.at_ms, field }]);
      }),
    [],
  );
  if (!loaded.data) return undefined;
  const { interval_ms: length, now } = loaded.data;
  const intervals = loaded.data.intervals.map((one) => ({ ...one }));
  while (intervals.length && intervals[intervals.length - 1]!.at < minute * 60_000) {
    intervals.push({ at: intervals[intervals.length - 1]!.at + length, started: 0, completed: 0, failed: 0, cancelled: 0, recovered: 0 });
  }
  for (const { at, field } of extra) {
    const interval = at > now ? intervals[Math.floor((at - intervals[0]!.at) / length)] : undefined;
    if (interval) interval[field]++;
  }
  // A minute that has just begun says nothing yet.
  const last = intervals[intervals.length - 1];
  if (last && last.at >= minute * 60_000 && !last.started && !last.completed && !last.failed && !last.recovered) intervals.pop();
  return { ...loaded.data, intervals: intervals.slice(-61) };
}

const FIELDS: Record<string, Exclude<keyof Interval, "at">> = {
  "run.queued": "started",
  "run.completed": "completed",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
  "run.recovered": "recovered",
};

interface SentenceProps {
  counts: Map<Status, number> | undefined;
  /** Number of runs with an open question. */
  asking: number | undefined;
  isMore: boolean;
  latest: Healing | undefined;
  checkup: Checkup | undefined;
  activity: Activity | undefined;
}

const HOUR_MS = 3_600_000;
const are = (n: number, word: string, one: string, many: string) => `${plural(n, word)} ${n === 1 ? one : many}`;

/** The state of everything, in words. */
function Sentence({ counts, asking, isMore, latest, checkup, activity }: SentenceProps) {
  const now = useNow(5000);
  if (!counts || !checkup || !activity || asking === undefined) return <p class="sentence">…</p>;
  const total = [...counts.values()].reduce((sum, one) => sum + one, 0);
  const open = checkup.findings.filter((one) => one.fate !== "healed" && one.severity !== "info").length;
  const parked = counts.get("parked") ?? 0;
  const paused = counts.get("paused") ?? 0;
  const sum = (field: Exclude<keyof Interval, "at">) => activity.intervals.reduce((all, one) => all + one[field], 0);
  const [failed, recovered] = [sum("failed"), sum("recovered")];
  const parts: Array<[string, string]> = [];
  if (open) parts.push([`${are(open, "finding", "needs", "need")} attention.`, href([])]);
  if (parked) parts.push([`${are(parked, "run", "is", "are")} parked.`, href(["runs"], { status: "parked" })]);
  if (failed) parts.push([`${are(failed, "run", "", "").trim()} failed in the last hour.`, href(["failures"])]);
  const calm = parts.length === 0;
  if (asking) parts.push([`${isMore ? "More than " : ""}${are(asking, "run", "waits", "wait")} for a person.`, href(["inbox"])]);
  if (paused) parts.push([`${are(paused, "run", "is", "are")} paused.`, href(["runs"], { status: "paused" })]);
  if (latest) {
    const when = `${age(now - latest.at_ms)} ago${latest.heal_ms == null ? "" : ` in ${span(latest.heal_ms)}`}`;
    const isRecent = now - latest.at_ms < HOUR_MS;
    const what = isRecent && recovered > 1 ? `${count(recovered)} recoveries in the last hour, the latest ${when}.` : latest.run ? `1 run was recovered ${when}.` : `The last recovery was ${when}.`;
    parts.push([what, href(["recoveries"])]);
  }
  return (
    <p class={`sentence ${calm ? "calm" : "alert"}`}>
      <Icon name={calm ? "done" : "warn"} />
      <span>
        {total === 0 ? "Nothing has run yet. " : calm ? "All well. " : ""}
        {parts.map(([text, link]) => (
          <>
            <a key={link} href={link} onClick={(event) => link === href([]) && (event.preventDefault(), document.getElementById("findings")?.scrollIntoView())}>{text}</a>{" "}
          </>
        ))}
        {total === 0 && <>To see a run that is recovered: <code>goldseam demo</code></>}
      </span>
    </p>
  );
}

function Findings({ checkup, again }: { checkup: Checkup | undefined; again(): void }) {
  const findings = checkup?.findings ?? [];
  const [all, setAll] = useState(false);
  return (
    <section class="card" id="findings">
      <h2>Doctor {findings.length > 0 && <span class="pill num">{count(findings.length)}</span>}</h2>
      {checkup && <p class="dim">{findings.length === 0 ? "No findings in " : "Examined "}{plural(checkup.scanned, "run")}{checkup.next != null && ", and stopped there. All: goldseam doctor"}.</p>}
      {!checkup ? (
        <Busy />
      ) : findings.length === 0 ? null : (
        <>
          <ul class="plain findings">
            {findings.slice(0, all ? 500 : 5).map((one, at) => (
              <li key={at}>
                <span class={`severity is-${one.severity}`}>{one.severity}</span> {one.code && <CodeLink code={one.code} name={one.rule_name} />}{" "}
                {one.run ? <RunLink run={one.run} /> : <span class="mono"><Text value={one.task ?? one.lock ?? one.node ?? one.record ?? one.state ?? ""} /></span>}
                <p class="dim"><Text value={one.evidence} /></p>
                <p class="small-text"><Text value={one.remedy} /></p>
              </li>
            ))}
          </ul>
          {findings.length > 5 && !all && <button type="button" onClick={() => setAll(true)}>Show all {count(findings.length)}</button>}
          {may("operate") && (
            <Action label="Heal" title="Heal the findings" scope="operate" reason="none" command={() => "goldseam doctor --fix"} act={async () => {
              const done = await call("POST /v1/doctor", {}, { body: { fix: true } });
              again();
              return `${plural(done.healed, "finding")} healed.`;
            }}>
              <p>The doctor examines the whole store and applies each remedy that needs no person.</p>
            </Action>
          )}
        </>
      )}
    </section>
  );
}
