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
  const groups = useLoad("groups", () => call("GET /v1/groups", { by: "status" }), { live: (event) => event.type.startsWith("run.") || event.type.startsWith("wait.") || event.type === "timer.set" });
  const questions = useLoad("questions", () => call("GET /v1/questions", { limit: 500 }), { live: (event) => /^(input|run)\./.test(event.type) });
  const latest = useLoad("latest", () => call("GET /v1/recoveries", { limit: 5 }), { live: (event) => event.type === "run.recovered" || event.type === "run.claimed" });
  const checkup = useLoad("doctor", () => call("GET /v1/doctor"), { live: (event) => /^run\.(recovered|parked|failed|completed|released)$/.test(event.type) });
  const nodes = useLoad("nodes", () => call("GET /v1/nodes"), { live: (event) => event.type === "run.claimed" || event.type === "run.recovered" });
  const queues = useLoad("queues", () => call("GET /v1/queues"), { live: (event) => /^(run|step)\./.test(event.type) });
  const activity = useActivity();
  const error = groups.error ?? questions.error ?? latest.error;
  const counts = new Map(groups.data?.groups.map((group) => [group.key, group.count]));
  const total = groups.data?.total ?? 0;
  return (
    <Page title="Health" command="goldseam doctor" json={address("GET /v1/doctor")}>
      {error && !error.isOffline && <Problem error={error} />}
      <Sentence counts={counts} questions={questions.data?.items.length} latest={latest.data?.items[0]} checkup={checkup.data} ready={groups.data !== undefined} total={total} />
      <ul class="tiles">
        {[...ACTIVE, ...ENDED].map((status) => (
          <li key={status} class={counts.get(status) ? "" : "zero"}>
            <a href={href(["runs"], { status })}>
              <StatusMark status={status} />
              <strong class="num">{groups.data ? count(counts.get(status) ?? 0) : "·"}</strong>
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
          <dl class="pairs">
            <div><dt>time to detect p50</dt><dd class="num">{activity ? span(activity.stalled_ms.p50) : "·"}</dd></div>
            <div><dt>time to detect p99</dt><dd class="num">{activity ? span(activity.stalled_ms.p99) : "·"}</dd></div>
            <div><dt>time to heal p50</dt><dd class="num">{activity ? span(activity.heal_ms.p50) : "·"}</dd></div>
            <div><dt>time to heal p99</dt><dd class="num">{activity ? span(activity.heal_ms.p99) : "·"}</dd></div>
          </dl>
          <h3>Latest</h3>
          {latest.data?.items.length ? (
            <ul class="plain">
              {latest.data.items.map((one) => (
                <li key={`${one.run}${one.at_ms}${one.task}`}>
                  <span class="gold-mark"><Icon name="recover" /></span> <CodeLink code={one.rule} name={one.rule_name} />{" "}
                  {one.run ? <RunLink run={one.run} /> : <Text value={one.task ?? one.lock ?? one.state ?? ""} />} <span class="dim"><Ago at={one.at_ms} /></span>
                </li>
              ))}
            </ul>
          ) : (
            <p class="dim">No recovery yet. To see one: <code>goldseam demo</code></p>
          )}
        </section>
      </div>
      <div class="columns">
        <Findings checkup={checkup.data} again={checkup.again} />
        <section class="card">
          <h2>Nodes</h2>
          {nodes.data ? (
            <>
              <p class="big num">
                {nodes.data.items.filter((node) => node.alive).length} <span class="dim">live</span>
              </p>
              <ul class="plain">
                {nodes.data.items.filter((node) => node.alive).slice(0, 5).map((node) => (
                  <li key={node.id}>
                    <span class="mono"><Text value={node.name} /></span>{" "}
                    <span class="dim num">{node.running ?? 0} of {node.slots} slots</span>
                  </li>
                ))}
              </ul>
              {nodes.data.items.every((node) => !node.alive || node.workflows.length === 0) && (
                <p class="warn-text"><Icon name="warn" /> No live node has a workflow: queued runs wait.</p>
              )}
              <p><a href={href(["queues"])}>Queues, locks, nodes</a></p>
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
                <thead><tr><th>queue</th><th class="right">due</th><th class="right">oldest</th></tr></thead>
                <tbody>
                  {queues.data.queues.slice(0, 6).map((queue) => (
                    <tr key={queue.queue}>
                      <td class="mono"><Text value={queue.queue} /></td>
                      <td class="right num">{count(queue.due)}</td>
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
        </section>
      </div>
    </Page>
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
  counts: Map<string | null | undefined, number>;
  questions: number | undefined;
  latest: Healing | undefined;
  checkup: Checkup | undefined;
  ready: boolean;
  total: number;
}

function Sentence({ counts, questions, latest, checkup, ready, total }: SentenceProps) {
  useNow(5000);
  if (!ready) return <p class="sentence">…</p>;
  const parked = counts.get("parked") ?? 0;
  const open = checkup?.findings.filter((one) => one.fate !== "healed" && one.severity !== "info").length ?? 0;
  const parts = [];
  if (total === 0) parts.push("Nothing runs yet.");
  else if (open > 0 || parked > 0) parts.push(open > 0 ? `${plural(open, "finding")} need${open === 1 ? "s" : ""} attention.` : `${plural(parked, "run")} ${parked === 1 ? "is" : "are"} parked.`);
  else parts.push("All well.");
  if (questions) parts.push(`${plural(questions, "question")} wait${questions === 1 ? "s" : ""} for a person.`);
  const paused = counts.get("paused") ?? 0;
  if (paused) parts.push(`${plural(paused, "run")} ${paused === 1 ? "is" : "are"} paused.`);
  if (latest) {
    const healed = latest.heal_ms == null ? "" : ` in ${span(latest.heal_ms)}`;
    parts.push(`The last recovery was ${age(Date.now() - latest.at_ms)} ago${healed}.`);
  }
  const calm = open === 0 && parked === 0;
  return (
    <p class={`sentence ${calm ? "calm" : "alert"}`}>
      <Icon name={calm ? "done" : "warn"} />
      <span>{parts.join(" ")}</span>
    </p>
  );
}

function Findings({ checkup, again }: { checkup: Checkup | undefined; again(): void }) {
  const findings = checkup?.findings ?? [];
  const [all, setAll] = useState(false);
  return (
    <section class="card">
      <h2>Doctor</h2>
      {!checkup ? (
        <Busy />
      ) : findings.length === 0 ? (
        <p class="dim">No findings in {plural(checkup.scanned, "run")}.</p>
      ) : (
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
