// The smaller tabs of a run: branches side by side, mail, children, effects.

import { useEffect, useState } from "preact/hooks";
import type { Detail, EventDoc, Step } from "../api-types";
import { address, call, type Refusal } from "../lib/api";
import { Raw } from "../lib/json";
import { useLoad } from "../lib/load";
import { runHref, setQuery } from "../lib/router";
import { count } from "../lib/time";
import { Ago, At, Busy, Command, Empty, Json, Problem, quote, RunLink, StatusMark, Text } from "./basics";
import { Icon } from "./icons";
import { Lineage } from "./lineage";
import { summary } from "./events";

export function Branches({ run, detail, query }: { run: string; detail: Detail; query: URLSearchParams }) {
  const names = detail.branches.map((one) => one.branch);
  const right = query.get("right") ?? names[names.length - 1] ?? "b1";
  const left = query.get("left") ?? detail.branches.find((one) => one.branch === right)?.parent ?? names[0] ?? "b1";
  const several = names.length > 1;
  const diff = useLoad(several ? `diff ${run} ${left} ${right} ${detail.as_of}` : undefined, () => call("GET /v1/runs/{run}/diff", { run, left, right }));
  return (
    <>
      <Lineage branches={detail.branches} left={left} right={right} choose={(side, branch) => setQuery({ [side]: branch })} />
      {!several && <Empty title="One branch" command={`goldseam jump ${run} STEP`}>A recovery, a jump or a retry opens another branch. Then both stand here side by side.</Empty>}
      {diff.error && <Problem error={diff.error} />}
      {diff.data && (
        <section class="card">
          <h2>{left} and {right}, side by side</h2>
          <Command line={`goldseam diff ${run} ${left} ${right}`} json={address("GET /v1/runs/{run}/diff", { run, left, right })} />
          <p class="parted"><span class="gold-mark"><Icon name="recover" /></span> They are the same up to event <a href={runHref(run, { tab: "events", event: String(diff.data.parted_after) })}>#{diff.data.parted_after}</a>, and part there.</p>
          <SideBySide run={run} left={left} right={right} after={diff.data.parted_after} end={detail.as_of} />
          {diff.data.items.length === 0 ? (
            <p class="dim">After that, both record the same operations.</p>
          ) : (
            <div class="scroll-x" tabIndex={0} role="group" aria-label="Differences">
              <table class="diff">
                <thead><tr><th>operation</th><th>{left}</th><th>{right}</th></tr></thead>
                <tbody>
                  {diff.data.items.slice(0, 500).map((item) => (
                    <tr key={item.path} class={`is-${item.change}`}>
                      <th scope="row"><code><Text value={item.path} /></code></th>
                      <td>{item.left ? <Text value={item.left} /> : <span class="dim">–</span>}</td>
                      <td>{item.right ? <Text value={item.right} /> : <span class="dim">–</span>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </section>
      )}
    </>
  );
}

/** Events that are shown of each branch. */
const SIDE_MAX = 60;

/** The events of two branches from the point where they part, in two columns that begin on the same line. */
function SideBySide({ run, left, right, after, end }: { run: string; left: string; right: string; after: number; end: number }) {
  const load = (branch: string) => call("GET /v1/runs/{run}/history", { run, branch, after, limit: SIDE_MAX });
  const pair = useLoad(`sides ${run} ${left} ${right} ${after} ${end}`, () => Promise.all([load(left), load(right)]));
  if (pair.error && !pair.data) return <Problem error={pair.error} />;
  if (!pair.data) return <Busy />;
  const [a, b] = pair.data.map((page) => page.items);
  const rows = Array.from({ length: Math.max(a!.length, b!.length) }, (_, at) => [a![at], b![at]] as const);
  const cell = (event: EventDoc | undefined, side: "left" | "right") => (
    <td class={side === "right" ? "seam-edge" : ""}>
      {event && (
        <>
          <a class="num dim" href={runHref(run, { tab: "events", event: String(event.seq) })}>#{event.seq}</a> {event.type} <span class="dim"><Text value={summary(event)} /></span>
        </>
      )}
    </td>
  );
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Events side by side">
      <table class="sides slim">
        <thead><tr><th>{left}</th><th>{right}</th></tr></thead>
        <tbody>{rows.map(([one, other], at) => <tr key={at}>{cell(one, "left")}{cell(other, "right")}</tr>)}</tbody>
      </table>
      {pair.data.some((page) => page.next != null) && <p class="dim">The first {SIDE_MAX} events of each. All: <code>goldseam history {run} --branch {right}</code></p>}
    </div>
  );
}

const MAIL = new Set(["signal.received", "input.answered", "run.cancel_requested", "run.paused", "run.resumed", "child.completed", "child.failed"]);
const MAIL_MAX = 5_000;

/** Mail is in the log; long logs are read from their end. */
export function Mail({ run, end, detail }: { run: string; end: number; detail: Detail }) {
  const [mail, setMail] = useState<EventDoc[]>();
  const [error, setError] = useState<Refusal>();
  useEffect(() => {
    let gone = false;
    const read = async () => {
      const found: EventDoc[] = [];
      let after = Math.max(0, end - MAIL_MAX);
      for (;;) {
        const page = await call("GET /v1/runs/{run}/history", { run, after, limit: 500 });
        found.push(...page.items.filter((event) => MAIL.has(event.type)));
        if (gone || page.next == null) break;
        after = page.next;
      }
      if (!gone) setMail(found.reverse());
    };
    read().catch((thrown) => !gone && setError(thrown));
    return () => {
      gone = true;
    };
  }, [run, end]);
  if (error) return <Problem error={error} />;
  if (!mail) return <Busy />;
  if (mail.length === 0) return <Empty title="No mail" command={`goldseam signal ${run} NAME --data '{}'`}>Signals, answers and requests of operators appear here.</Empty>;
  return (
    <>
      <p class="dim">{count(detail.mail_unread ?? 0)} unread. {end > MAIL_MAX && `From the last ${count(MAIL_MAX)} events.`}</p>
      <ul class="cards">
        {mail.slice(0, 200).map((event) => {
          const data = (event.data as unknown as Raw | undefined)?.value ?? {};
          return (
            <li key={event.seq} class="card">
              <p><strong>{event.type}</strong> <code><Text value={String(data.name ?? data.question ?? data.run ?? "")} /></code> <span class="dim">#{event.seq} · <At at={event.at_ms} /></span></p>
              {event.data ? <Json raw={event.data as unknown as Raw} name={`${run}-${event.seq}.json`} /> : null}
            </li>
          );
        })}
      </ul>
    </>
  );
}

export function Children({ run, detail }: { run: string; detail: Detail }) {
  const page = useLoad(`children ${run} ${detail.as_of}`, () => call("GET /v1/runs", { parent: run, limit: 500, order: "oldest" }), { live: (event) => event.run.startsWith(run) });
  if (page.error && !page.data) return <Problem error={page.error} />;
  if (!page.data) return <Busy />;
  if (page.data.items.length === 0) return <Empty title="No children" command={`goldseam ls --parent ${quote(run)}`}>Runs that this run starts appear here.</Empty>;
  return (
    <>
      <Command line={`goldseam ls --parent ${quote(run)}`} json={address("GET /v1/runs", { parent: run })} />
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Children">
        <table>
          <thead><tr><th>status</th><th>run</th><th>workflow</th><th class="right">steps</th><th class="right">age</th></tr></thead>
          <tbody>
            {page.data.items.map((row) => (
              <tr key={row.run}>
                <td><StatusMark status={row.status} /></td>
                <td><RunLink run={row.run} /></td>
                <td><Text value={row.workflow} /></td>
                <td class="right num">{row.steps ?? 0}</td>
                <td class="right"><Ago at={row.created_at} suffix="" /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** Effects by what is known about them. */
export function Effects({ detail }: { detail: Detail }) {
  const undone = new Set(detail.steps.filter((step) => step.kind === "undo" && step.state === "done").map((step) => step.path));
  const isUndone = (step: Step) => [...undone].some((path) => path.endsWith(step.path) && path !== step.path);
  const leaf = detail.steps.filter((step) => step.kind === "step" || step.kind === "remote");
  const isUnderWay = (step: Step) => detail.finished_at == null && (step.kind === "remote" || (detail.under_way ?? []).includes(step.path));
  const groups: Array<[string, string, Step[]]> = [
    ["Under way", "A worker executes it now.", leaf.filter((step) => step.state === "open" && isUnderWay(step))],
    ["Outcome unknown", "Begun, and no result in the log: the effect may have happened.", leaf.filter((step) => step.state === "open" && !isUnderWay(step))],
    ["Standing", "Completed. The result is in the log, and the step never runs again on this lineage.", leaf.filter((step) => step.state === "done" && !isUndone(step))],
    ["Undone", "Compensated.", leaf.filter((step) => step.state === "done" && isUndone(step))],
    ["Failed", "The last attempt failed.", leaf.filter((step) => step.state === "failed")],
  ];
  const left = detail.left_standing;
  if (leaf.length === 0) return <Empty title="No effects yet" command={`goldseam show ${detail.run}`}>Steps that began appear here, by what is known about their effect.</Empty>;
  return (
    <div class="columns">
      {groups.filter(([, , steps]) => steps.length > 0).map(([title, what, steps]) => (
        <section key={title} class="card">
          <h2>{title} <span class="pill num">{count(steps.length)}</span></h2>
          <p class="dim">{what}</p>
          <ul class="plain">{steps.slice(0, 200).map((step) => <li key={step.path}><code><Text value={step.path} /></code> {step.note && <span class="dim"><Text value={step.note} /></span>}</li>)}</ul>
          {steps.length > 200 && <p class="dim">and {count(steps.length - 200)} more</p>}
        </section>
      ))}
      {left && <section class="card"><h2>Left by a termination</h2><Json raw={new Raw(JSON.stringify(left))} name={`${detail.run}-left.json`} /></section>}
    </div>
  );
}
