// One run: why it is where it is, and everything that happened to it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Detail, Explanation } from "../api-types";
import { address, call } from "../lib/api";
import { onChange, onEvent } from "../lib/feed";
import { Raw } from "../lib/json";
import { useLoad, type Loaded } from "../lib/load";
import { href, runHref, setQuery } from "../lib/router";
import { plural, span, useNow } from "../lib/time";
import { Ago, At, Back, Busy, CodeLink, Command, Fact, Folded, Json, Page, Problem, RunLink, StatusMark, Tabs, Text } from "../parts/basics";
import { Icon } from "../parts/icons";
import { Remedy } from "../parts/remedy";
import { RunActions, UndoSeam } from "../parts/run-actions";
import { Timeline } from "../parts/timeline";
import { Branches, Children, Effects, Mail } from "../parts/run-tabs";
import { Events } from "../parts/events";

export default function Run({ path, query }: { path: string[]; query: URLSearchParams }) {
  const run = path[1]!;
  const tab = query.get("tab") ?? "timeline";
  const branch = query.get("branch") ?? undefined;
  const at = query.get("at") ? Number(query.get("at")) : undefined;
  const detail = useLoad(`run ${run} ${branch} ${at}`, () => call("GET /v1/runs/{run}", { run, ...(branch ? { branch } : {}), ...(at ? { at } : {}) }), { group: run });
  const present = useLoad(at || branch ? `present ${run}` : undefined, () => call("GET /v1/runs/{run}", { run }));
  const why = useLoad(`why ${run}`, () => call("GET /v1/runs/{run}/why", { run }));
  const tasks = useLoad(`tasks ${run}`, () => call("GET /v1/tasks", { run, limit: 500 }));
  const nodes = useLoad("nodes", () => call("GET /v1/nodes"));
  const head = useFollowed(run, detail, [why, tasks, nodes]);
  const found = detail.data;
  const end = Math.max(head, (at || branch ? present.data : found)?.as_of ?? 0);
  const others = useOthers(run, found, tab === "timeline" && at === undefined);
  const link = (next: string) => runHref(run, { ...Object.fromEntries(query), tab: next === "timeline" ? undefined : next });
  const again = () => (detail.again(), why.again(), tasks.again());
  const command = tab === "events" ? `goldseam history ${run}` : tab === "branches" ? `goldseam branches ${run}` : at ? `goldseam show ${run} --at ${at}` : branch ? `goldseam show ${run} --branch ${branch}` : `goldseam show ${run}`;
  return (
    <Page
      title={<span class="mono"><Text value={run} /></span>}
      command={command}
      json={address("GET /v1/runs/{run}", { run, branch, at })}
      actions={found && !at && <RunActions detail={found} again={again} />}
    >
      {detail.error && !found && (
        <Problem error={detail.error} back={<><Back path={["runs"]} label="All runs" />{(branch || at) && <p><a href={runHref(run)}>This run, as it is now</a></p>}</>} />
      )}
      {!found && !detail.error && <Busy />}
      {found && (
        <>
          {at !== undefined && (
            <p class="banner calm">
              <Icon name="waiting" /> The state as derived at event #{at} of the log. <a href={runHref(run, { tab: query.get("tab") ?? undefined })}>Back to now</a>
            </p>
          )}
          <Why found={found} why={at === undefined ? why.data : undefined} />
          <Facts detail={found} run={run} tab={tab} />
          <Tabs
            current={tab}
            link={link}
            tabs={[
              ["timeline", "Timeline"],
              ["events", "Events", end],
              ["branches", "Branches", found.branches.length],
              ["mail", "Mail", found.mail_count ?? 0],
              ["children", "Children"],
              ["effects", "Effects"],
            ]}
          />
          {tab === "timeline" && (
            <>
              <Timeline detail={found} others={others} tasks={tasks.data?.items ?? []} nodes={nodes.data?.items ?? []} seamActions={(seam) => <UndoSeam detail={found} seam={seam} again={again} />} />
              <div class="columns">
                {found.input != null && <Json label="Input" raw={found.input as unknown as Raw} name={`${run}-input.json`} />}
                {found.output != null && <Json label="Output" raw={found.output as unknown as Raw} name={`${run}-output.json`} />}
              </div>
            </>
          )}
          {tab === "events" && <Events run={run} end={end} at={at} damage={found.damage ?? []} />}
          {tab === "branches" && <Branches run={run} detail={found} query={query} />}
          {tab === "mail" && <Mail run={run} end={end} detail={found} />}
          {tab === "children" && <Children run={run} detail={found} />}
          {tab === "effects" && <Effects detail={found} />}
          {!["timeline", "events", "branches", "mail", "children", "effects"].includes(tab) && (
            <div class="problem" role="alert"><Icon name="warn" /><p>There is no tab <code><Text value={tab} /></code>. <a href={runHref(run)}>Timeline</a></p></div>
          )}
        </>
      )}
    </Page>
  );
}

/** Longest log, and most branches, for which the timeline also draws the branches that were left. */
const OTHERS_EVENTS_MAX = 3_000;
const OTHERS_MAX = 8;
const NONE: ReadonlyMap<string, Detail> = new Map();

/** The branches that were left before the shown one. */
function useOthers(run: string, found: Detail | undefined, isWanted: boolean): ReadonlyMap<string, Detail> {
  const shown = found && lineage(found);
  const names = (found?.branches ?? []).map((one) => one.branch).filter((name) => shown && name !== shown[0]);
  const fits = isWanted && found !== undefined && names.length > 0 && names.length <= OTHERS_MAX && found.as_of <= OTHERS_EVENTS_MAX;
  const loaded = useLoad(fits ? `others ${run} ${names.join()} ${shown![0]}` : undefined, async () => {
    const all = await Promise.all(names.map(async (branch) => [branch, await call("GET /v1/runs/{run}", { run, branch })] as const));
    return new Map(all);
  });
  return loaded.data ?? NONE;
}

/** The shown branch, then the branches that it was cut from. */
function lineage(found: Detail): string[] {
  const parents = new Map(found.branches.map((one) => [one.branch, one.parent]));
  const names: string[] = [];
  for (let name: string | null | undefined = `b${found.branch}`; name; name = parents.get(name)) names.push(name);
  return names;
}

/** Follows the log of the run. Returns the last position that is known. */
function useFollowed(run: string, detail: Loaded<Detail>, others: Array<Loaded<unknown>>): number {
  const [head, setHead] = useState(0);
  const all = useRef([detail, ...others]);
  all.current = [detail, ...others];
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = 0;
    // A long log takes long to read: the page then reads it less often.
    const soon = () => {
      const pause = Math.max(250, 5 * (all.current[0]?.cost() ?? 0));
      timer ??= setTimeout(() => {
        timer = undefined;
        last = performance.now();
        all.current.forEach((one) => one.again());
      }, Math.max(60, last + pause - performance.now()));
    };
    const stopFeed = onEvent((event) => {
      if (event !== undefined && event.run !== run) return;
      if (event) setHead((old) => Math.max(old, event.seq));
      soon();
    });
    // The end of a node is not in the log of the run, but in its explanation.
    const stopChanges = onChange(() => all.current[1]?.again());
    return () => {
      clearTimeout(timer);
      stopFeed();
      stopChanges();
    };
  }, [run]);
  return head;
}

function Why({ found, why }: { found: Detail; why: Explanation | undefined }) {
  const now = useNow();
  const [open, setOpen] = useState(false);
  const steps = why?.you_can ?? [];
  return (
    <section class={`why is-${found.status}`} aria-label="Why">
      <p class="sentence">
        <StatusMark status={found.status} />
        <span>{why ? <Text value={why.verdict ?? ""} /> : found.failure ? <Text value={found.failure.message} /> : found.status}</span>
      </p>
      {why?.moves_at != null && why.moves_at > now && why.moves_at < 8e15 && <p class="dim">It moves in <span class="num">{span(why.moves_at - now)}</span>.</p>}
      {why && why.links.some((link) => link.what !== why.verdict) && (
        <Folded class="links" what="cause" items={why.links} row={(link, at) => (
          <li key={at} style={{ marginInlineStart: `${link.depth * 16}px` }}>
            <Text value={link.what} />
            {link.since != null && <span class="dim"> · <Ago at={link.since} suffix={found.finished_at == null ? "" : " ago"} /></span>}
          </li>
        )} />
      )}
      {why && why.findings.length > 0 && (
        <div class="findings">
          <h2>What would heal this</h2>
          <ul class="plain">
            {why.findings.map((one) => (
              <li key={one.code}>
                <CodeLink code={one.code} name={one.rule_name} /> {one.automatic ? <span class="pill">automatic</span> : <span class="pill">needs a person</span>} <a href={runHref(found.run, { tab: "events", event: String(one.event) })}>event #{one.event}</a>
                <p><Text value={one.evidence} /></p>
                <p class="dim"><Text value={one.remedy} /></p>
                <div class="actions"><Remedy run={found.run} code={one.code} /></div>
              </li>
            ))}
          </ul>
        </div>
      )}
      <div class="why-foot">
        <Command line={`goldseam why ${found.run}`} json={address("GET /v1/runs/{run}/why", { run: found.run })} />
        {steps.length > 0 && <button type="button" class="quiet small" aria-expanded={open} onClick={() => setOpen(!open)}>What you can do</button>}
      </div>
      {open && <ul class="plain you-can">{steps.map((step, at) => <li key={at}><Text value={step} /></li>)}</ul>}
    </section>
  );
}

function Facts({ detail, run, tab }: { detail: Detail; run: string; tab: string }) {
  const tags = Object.entries(detail.tags ?? {});
  const attributes = detail.attributes as unknown as Raw | undefined;
  const policy = detail.recovery;
  return (
    <dl class="facts run-facts">
      <Fact name="workflow"><a href={href(["runs"], { workflow: detail.workflow })}><Text value={detail.workflow} /></a>{detail.version > 0 && <span class="dim">@{detail.version}</span>}</Fact>
      <Fact name="queued"><At at={detail.created_at} /></Fact>
      <Fact name={detail.finished_at == null ? "for" : "took"}>{detail.finished_at == null ? <Ago at={detail.created_at} suffix="" /> : span(detail.finished_at - detail.created_at)}</Fact>
      <Fact name="steps">{detail.steps_done}</Fact>
      <Fact name="branch">
        <label class="unseen" for="branch">Branch</label>
        <select id="branch" value={new URLSearchParams(location.search).get("branch") ?? `b${detail.branch}`} onChange={(event) => setQuery({ branch: event.currentTarget.value === `b${detail.branch}` ? undefined : event.currentTarget.value, tab: tab === "timeline" ? undefined : tab })}>
          {detail.branches.map((one) => <option key={one.branch} value={one.branch}>{one.branch}{one.active ? " (active)" : ""}</option>)}
        </select>
      </Fact>
      {detail.owner && <Fact name="node"><span class="mono">{detail.owner}</span></Fact>}
      <Fact name="queue"><code><Text value={detail.queue} /></code></Fact>
      {detail.priority ? <Fact name="priority"><span class="num">{detail.priority}</span></Fact> : null}
      {detail.parent && <Fact name="parent"><RunLink run={detail.parent} /></Fact>}
      {detail.recoveries ? <Fact name="healed"><span class="gold-mark"><Icon name="recover" /> {plural(detail.recoveries, "time")}</span></Fact> : null}
      {policy && <Fact name="recovery"><span class="num">up to {policy.attempts_max} times, then {policy.park ? "parked" : "failed"}</span></Fact>}
      {detail.failure && <Fact name="failure"><Text value={detail.failure.message} />{detail.failure.code && <> <code>{detail.failure.code}</code></>}</Fact>}
      {detail.trouble && <Fact name="cause"><a href={href(["runs"], { cause: detail.trouble.cause })}><code>{detail.trouble.cause}</code></a></Fact>}
      {tags.map(([name, value]) => <Fact key={name} name={name}><Text value={value} /></Fact>)}
      {attributes && attributes.text !== "{}" && <Fact name="attributes"><code><Text value={attributes.text} /></code></Fact>}
      {detail.questions.length > 0 && <Fact name="asks"><a href={href(["inbox"], { run })}>{plural(detail.questions.length, "question")}</a></Fact>}
      {detail.damage && detail.damage.length > 0 && <Fact name="damage">{detail.damage.map((one) => <p key={one.seq}>#{one.seq} <Text value={one.reason} /></p>)}</Fact>}
    </dl>
  );
}
