// Healings: symptom, evidence, rule, action, and how long it took.

import { useState } from "preact/hooks";
import type { Healing } from "../api-types";
import { address, call, type Refusal } from "../lib/api";
import { useLoad } from "../lib/load";
import { href, runHref, setQuery } from "../lib/router";
import { count, span } from "../lib/time";
import { Action, withReason } from "../parts/actions";
import { Ago, At, Busy, CodeLink, Empty, Page, Problem, RunLink, Text } from "../parts/basics";
import { Chart } from "../parts/chart";
import { Icon } from "../parts/icons";
import { Remedy } from "../parts/remedy";

export default function Recoveries({ query }: { query: URLSearchParams }) {
  const rule = query.get("rule") ?? "";
  const [more, setMore] = useState<{ rule: string; items: Healing[]; next: string | null | undefined }>();
  const [failed, setFailed] = useState<Refusal>();
  const live = { live: (event: { type: string }) => event.type === "run.recovered" || event.type === "run.claimed" };
  const stats = useLoad("stats", () => call("GET /v1/recoveries/stats"), live);
  const page = useLoad(`recoveries ${rule}`, () => call("GET /v1/recoveries", { rule, limit: 50 }), live);
  const extra = more?.rule === rule ? more : undefined;
  const known = new Set(page.data?.items.map(keyOf));
  const items = [...(page.data?.items ?? []), ...(extra?.items.filter((one) => !known.has(keyOf(one))) ?? [])];
  const next = extra ? extra.next : page.data?.next;
  const rules = stats.data?.items ?? [];
  const activity = useLoad("activity", () => call("GET /v1/activity"), live);
  const longest = Math.max(1, ...rules.map((one) => one.stalled_ms.p99));
  return (
    <Page title="Recoveries" command={rule ? `goldseam recoveries --rule ${rule}` : "goldseam recoveries"} json={address("GET /v1/recoveries", { rule })}>
      {rules.length > 0 && (
        <section class="card">
          <h2>Per minute, last hour</h2>
          {activity.data && (
            <Chart
              label="Recoveries per minute"
              times={activity.data.intervals.map((one) => one.at)}
              series={[
                { label: "recovered", color: "gold", values: activity.data.intervals.map((one) => one.recovered) },
                { label: "failed", color: "bad", values: activity.data.intervals.map((one) => one.failed), dash: [6, 3] },
              ]}
            />
          )}
          <h2>By rule</h2>
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Rules">
            <table class="slim">
              <thead><tr><th>rule</th><th class="right">count</th><th>time to detect</th><th class="right">p50</th><th class="right">p99</th><th class="right">heal p50</th><th class="right">heal p99</th><th><span class="unseen">filter</span></th></tr></thead>
              <tbody>
                {rules.map((one) => (
                  <tr key={`${one.rule}${one.ended}`}>
                    <td><CodeLink code={one.rule} name={one.rule_name} />{one.ended && <span class="pill">ended</span>}</td>
                    <td class="right num">{count(one.count)}</td>
                    <td><svg class="spread" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width={Math.max(0.5, (100 * one.stalled_ms.p99) / longest)} height="8" class="p99" /><rect width={Math.max(0.5, (100 * one.stalled_ms.p50) / longest)} height="8" class="p50" /></svg></td>
                    <td class="right num">{span(one.stalled_ms.p50)}</td>
                    <td class="right num">{span(one.stalled_ms.p99)}</td>
                    <td class="right num">{span(one.heal_ms.p50)}</td>
                    <td class="right num">{span(one.heal_ms.p99)}</td>
                    <td><button type="button" class="small" aria-pressed={rule === one.rule} onClick={() => setQuery({ rule: rule === one.rule ? undefined : one.rule })}>{rule === one.rule ? "all" : "only"}</button></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      <Open rule={rule} />
      {page.error && !page.data && <Problem error={page.error} back={<p><a href={href(["recoveries"])}>All recoveries</a></p>} />}
      {!page.data && !page.error && <Busy />}
      {page.data && items.length === 0 && (
        <Empty title={rule ? `No recovery by ${rule}` : "No recovery yet"} command="goldseam drill">A drill injects faults on purpose, and measures how long healing takes. {rule && <a href={href(["recoveries"])}>All recoveries</a>}</Empty>
      )}
      <ol class="feed">
        {items.map((one) => (
          <li key={keyOf(one)} class="card healing">
            <header class="card-head">
              <h2>
                <span class="gold-mark"><Icon name="recover" /></span> <CodeLink code={one.rule} name={one.rule_name} />
                {one.run ? <RunLink run={one.run} /> : <span class="mono"><Text value={one.task ?? one.lock ?? one.state ?? ""} /></span>}
                {one.workflow && <span class="dim"><Text value={one.workflow} /></span>}
              </h2>
              <span class="dim"><Ago at={one.at_ms} /></span>
            </header>
            <ol class="chain">
              <li><span class="label">symptom</span><Text value={SYMPTOM[one.reason] ?? one.reason} /></li>
              <li><span class="label">evidence</span><Text value={one.evidence} /></li>
              <li><span class="label">action</span>{action(one)}</li>
              <li><span class="label">detected after</span><span class="num">{span(one.stalled_ms)}</span></li>
              <li><span class="label">healed in</span><span class="num">{one.ended ? "–" : one.heal_ms == null ? "not yet" : span(one.heal_ms)}</span></li>
            </ol>
          </li>
        ))}
      </ol>
      {failed && <Problem error={failed} />}
      {next && <button type="button" onClick={() => call("GET /v1/recoveries", { rule, limit: 50, after: next }).then((got) => setMore({ rule, items: [...(extra?.items ?? []), ...got.items], next: got.next }), setFailed)}>Older</button>}
    </Page>
  );
}

/** Runs that a rule finds stalled now, each with the dry run of its remedy. */
function Open({ rule }: { rule: string }) {
  const found = useLoad(`doctor ${rule}`, () => call("GET /v1/doctor"), { live: (event) => /^run\.(recovered|parked|failed|completed|released|claimed)$/.test(event.type) });
  const open = (found.data?.findings ?? []).filter((one) => one.run && one.code && one.fate !== "healed" && (!rule || one.code === rule));
  if (open.length === 0) return null;
  return (
    <section class="card">
      <h2>What would heal this <span class="pill num">{count(open.length)}</span></h2>
      <ul class="plain findings">
        {open.slice(0, OPEN_MAX).map((one) => (
          <li key={`${one.run} ${one.code}`}>
            <p><CodeLink code={one.code!} name={one.rule_name} /> <RunLink run={one.run!} /> {one.since && <span class="dim">since <At at={Number(one.since)} /></span>}</p>
            <p><Text value={one.evidence} /></p>
            <p class="dim"><Text value={one.remedy} /></p>
            <div class="actions">
              <Remedy run={one.run!} code={one.code!} />
              <Action label="Recover" class="small" title={`Recover ${one.run}`} scope="operate" done={found.again} command={(reason) => withReason(`goldseam recover ${one.run}`, reason)}
                act={async (reason) => {
                  const done = await call("POST /v1/runs/{run}/recover", { run: one.run! }, { body: { reason } });
                  return done.healed ? `Healed by ${done.rule}.` : done.needed ? "Not healed: it needs a person." : "No rule applies: nothing to heal.";
                }}>
                <p>The rules examine the run, and the first automatic remedy is applied.</p>
              </Action>
            </div>
          </li>
        ))}
      </ul>
      {open.length > OPEN_MAX && <p class="dim">and {count(open.length - OPEN_MAX)} more: <code>goldseam doctor</code></p>}
    </section>
  );
}

const OPEN_MAX = 10;

const SYMPTOM: Record<string, string> = { infrastructure_restart: "its process ended", stale_detection: "no progress", manual: "an operator asked" };

/** What the rule did. */
function action(one: Healing) {
  if (one.ended) return <>stopped: <Text value={one.ended} /></>;
  if (one.new_branch) return <>cut {one.previous_branch} after {one.run ? <a href={runHref(one.run, { tab: "events", event: String(one.cutoff) })}>#{one.cutoff}</a> : `#${one.cutoff}`}, continued on {one.run ? <a href={runHref(one.run, { tab: "branches" })}>{one.new_branch}</a> : one.new_branch}</>;
  return <>queued again, recovery {count(one.attempt)} since the last progress</>;
}

const keyOf = (one: Healing) => `${one.run ?? one.task ?? one.lock ?? one.state}#${one.event ?? one.at_ms}`;
