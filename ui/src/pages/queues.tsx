// Queues, tasks, locks and nodes: depth and age, holders, and what no live node serves.

import { useState } from "preact/hooks";
import type { Node, Task } from "../api-types";
import { address, call, type Refusal } from "../lib/api";
import { useLoad } from "../lib/load";
import { href, setQuery } from "../lib/router";
import { count, plural, span, useNow } from "../lib/time";
import { Action } from "../parts/actions";
import { Ago, At, Busy, Command, Page, Problem, RunLink, Text } from "../parts/basics";
import { Icon } from "../parts/icons";

export default function Queues({ query }: { query: URLSearchParams }) {
  const changes = { changes: true };
  const queues = useLoad("queues", () => call("GET /v1/queues"), changes);
  const nodes = useLoad("nodes", () => call("GET /v1/nodes"), changes);
  const locks = useLoad("locks", () => call("GET /v1/locks", { limit: 500 }), changes);
  const stale = useLoad("stale", () => call("GET /v1/locks/stale"), changes);
  const unserved = queues.data?.unserved ?? [];
  const queue = query.get("queue") ?? undefined;
  const [left, setLeft] = useState(false);
  const all = nodes.data?.items ?? [];
  const shown = all.filter((node) => node.alive || left);
  return (
    <Page title="Queues, locks, nodes" command="goldseam queue stats" json={address("GET /v1/queues")}>
      {unserved.map((one) => (
        <p key={`${one.needs} ${one.queues.join()}`} class="banner unserved"><Icon name="warn" /> <span>No live node takes {plural(one.queued, "run")} of <a href={href(["runs"], { workflow: one.workflow })}><Text value={one.needs} /></a> in queue <code><Text value={one.queues.join(", ")} /></code>, for <Ago at={one.since_ms} suffix="" />. {one.queued === 1 ? "It needs" : "They need"} <Text value={one.waits_for} />.</span></p>
      ))}
      <section class="card">
        <h2>Queues</h2>
        {!queues.data ? <Pending error={queues.error} /> : queues.data.queues.length === 0 ? (
          <p class="dim">No tasks. To add one: <code>goldseam queue submit KIND --queue images</code></p>
        ) : (
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Queues">
            <table>
              <thead><tr><th>queue</th><th class="right">ready</th><th class="right">due</th><th class="right">claimed</th><th class="right">dead</th><th class="right">oldest due</th><th class="right">nodes</th></tr></thead>
              <tbody>
                {queues.data.queues.map((one) => (
                  <tr key={one.queue}>
                    <th scope="row"><a class="mono" href={href(["queues"], { queue: one.queue })}><Text value={one.queue} /></a>{unserved.some((other) => other.queues.includes(one.queue)) && <span class="warn-text"> <Icon name="warn" /> has runs that no live node takes</span>}{(one.tasks_due ?? 0) > 0 && one.claimed === 0 && (one.oldest_ms ?? 0) > 10_000 && <span class="warn-text"> <Icon name="warn" /> {plural(one.tasks_due ?? 0, "task")} due, and no worker holds a task of it</span>}</th>
                    <td class="right num">{count(one.ready)}</td><td class="right num">{count(one.due)}</td><td class="right num">{count(one.claimed)}</td>
                    <td class="right num">{one.dead ? <a href={href(["queues"], { queue: one.queue, state: "dead" })}><Icon name="failed" /> {count(one.dead)}</a> : 0}</td>
                    <td class="right num">{one.oldest_ms == null ? "–" : span(one.oldest_ms)}</td>
                    <td class="right num">{one.nodes == null ? <span title="a live node does not record its queues">?</span> : one.nodes}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {queues.data?.flaws.slice(0, 20).map((one) => <p key={one.task} class="warn-text"><Icon name="warn" /> Task <code>{one.task}</code>: <Text value={one.flaw} /></p>)}
        {queues.data && !queues.data.complete && <p class="dim">Counted the first {count(queues.data.counted)} tasks only.</p>}
      </section>
      {queue && <Tasks queue={queue} state={query.get("state") ?? ""} />}
      <section class="card">
        <h2>Locks</h2>
        <Command line="goldseam lock ls" json={address("GET /v1/locks")} />
        {!locks.data ? <Pending error={locks.error} /> : locks.data.items.length === 0 ? (
          <p class="dim">No locks. To take one: <code>goldseam lock acquire NAME --holder ME</code></p>
        ) : (
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Locks">
            <table>
              <thead><tr><th>lock</th><th>holder</th><th class="right">fence</th><th>until</th><th>node</th><th>state</th></tr></thead>
              <tbody>
                {locks.data.items.map((lock) => {
                  const why = stale.data?.items.find((one) => one.lock.name === lock.name)?.why;
                  return (
                    <tr key={lock.name}>
                      <th scope="row" class="mono"><Text value={lock.name} /></th>
                      <td><Text value={lock.holder ?? "–"} /></td><td class="right num">{lock.fence}</td><td>{lock.holder ? <At at={lock.expires_at} /> : "–"}</td>
                      <td class="mono dim">{lock.node ?? ""}</td>
                      <td>{why ? <span class="warn-text"><Icon name="warn" /> stale: <Text value={why} /></span> : lock.holder ? "held" : "free"}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section class="card">
        <h2>Nodes</h2>
        <Command line="goldseam nodes" json={address("GET /v1/nodes")} />
        {!nodes.data ? <Pending error={nodes.error} /> : shown.length === 0 ? (
          <p class="dim">No live node. A program with an engine, or <code>goldseam serve</code>, is a node.</p>
        ) : (
          <ul class="cards nodes">{shown.map((node) => <NodeCard key={node.id} node={node} />)}</ul>
        )}
        {all.length > all.filter((node) => node.alive).length && <button type="button" aria-pressed={left} onClick={() => setLeft(!left)}>{left ? "Only live nodes" : `Also ${plural(all.filter((node) => !node.alive).length, "node")} that left`}</button>}
      </section>
    </Page>
  );
}

/** The content of a section whose data is not read yet, or cannot be read. */
const Pending = ({ error }: { error: Refusal | undefined }) => (error ? <Problem error={error} /> : <Busy />);

function NodeCard({ node }: { node: Node }) {
  const now = useNow();
  return (
    <li class={`card node ${node.alive ? "" : "gone"}`}>
      <p><Icon name={node.alive ? "done" : "failed"} /> <strong><Text value={node.name} /></strong> <span class="pill">{node.state}</span></p>
      <p class="dim mono small-text">{node.id}</p>
      <p class="num">{node.running ?? "?"} of {plural(node.slots, "slot")} · last beat {span(now - node.beat_at)} ago · pulse {node.pulse}{node.release && ` · release ${node.release}`}</p>
      <p class="small-text">{node.workflows.length ? <Text value={node.workflows.join(", ")} /> : <span class="dim">no workflows</span>}</p>
      {node.queues && node.workflows.length > 0 && <p class="small-text dim">takes runs from <Text value={node.queues.join(", ")} /></p>}
      {node.why && <p class="warn-text"><Icon name="warn" /> <Text value={node.why} /></p>}
      <p><a href={href(["runs"], { where: `owner = "${node.id}"` })}>Its runs</a></p>
    </li>
  );
}

const STATES = ["", "ready", "claimed", "dead", "failed", "completed", "cancelled"];

function Tasks({ queue, state }: { queue: string; state: string }) {
  const page = useLoad(`tasks ${queue} ${state}`, () => call("GET /v1/tasks", { queue, state: (state || undefined) as any, limit: 200 }), { changes: true });
  return (
    <section class="card">
      <h2>Tasks of <span class="mono"><Text value={queue} /></span></h2>
      <Command line={`goldseam tasks --queue ${queue}${state ? ` --state ${state}` : ""}`} json={address("GET /v1/tasks", { queue, state })} />
      <p class="inline-field"><label for="state">State</label> <select id="state" value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>{STATES.map((one) => <option key={one} value={one}>{one || "all"}</option>)}</select></p>
      {page.error && <Problem error={page.error} back={<p><a href={href(["queues"])}>All queues</a></p>} />}
      {page.data?.items.length === 0 && <p class="dim">No such tasks. <a href={href(["queues"])}>All queues</a></p>}
      {page.data && page.data.items.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Tasks">
          <table>
            <thead><tr><th>task</th><th>kind</th><th>state</th><th>run</th><th class="right">attempts</th><th>owner</th><th>heartbeat</th><th>failure</th><th><span class="unseen">actions</span></th></tr></thead>
            <tbody>{page.data.items.map((task) => <TaskRow key={task.id} task={task} again={page.again} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function TaskRow({ task, again }: { task: Task; again(): void }) {
  const open = task.state === "ready" || task.state === "claimed";
  return (
    <tr>
      <th scope="row" class="mono"><Text value={task.id} /></th>
      <td><Text value={task.kind} /></td><td>{task.state}</td><td>{task.run && <RunLink run={task.run} />}</td>
      <td class="right num">{task.attempts ?? 0}</td><td class="mono dim"><Text value={task.owner ?? ""} /></td>
      <td>{task.heartbeat_at != null && <Ago at={task.heartbeat_at} />}</td>
      <td><Text value={task.failure?.message ?? ""} /></td>
      <td>{open && !task.run && <Action scope="operate" label="Cancel" title={`Cancel task ${task.id}`} danger reason="none" command={() => `goldseam queue cancel ${task.id}`} act={async () => void (await call("POST /v1/tasks/{task}/cancel", { task: task.id }))} done={again} />}</td>
    </tr>
  );
}
