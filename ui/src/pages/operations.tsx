// Operations on many runs, and the progress of one.

import type { Operation } from "../api-types";
import { address, call } from "../lib/api";
import { useLoad } from "../lib/load";
import { href } from "../lib/router";
import { count, plural, span } from "../lib/time";
import { Action, withReason } from "../parts/actions";
import { Ago, Back, Busy, Empty, Fact, Page, Problem, RunLink, StatusMark, Text } from "../parts/basics";

export default function Operations({ path }: { path: string[] }) {
  return path[1] ? <One id={path[1]} /> : <All />;
}

function All() {
  const page = useLoad("operations", () => call("GET /v1/operations", { limit: 100 }), { live: (event) => event.run.startsWith("goldseam.") || event.type.startsWith("run.") });
  return (
    <Page title="Operations" command="goldseam operation ls" json={address("GET /v1/operations")}>
      {page.error && !page.data && <Problem error={page.error} />}
      {!page.data && !page.error && <Busy />}
      {page.data?.items.length === 0 && (
        <Empty title="No operations yet" command="goldseam retry --where 'status = failed' --dry-run">An operation applies one verb to every run that a condition selects. Begin one on the page of runs or of failures.</Empty>
      )}
      {page.data && page.data.items.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Operations">
          <table>
            <thead><tr><th>operation</th><th>verb</th><th>which runs</th><th>status</th><th class="right">done</th><th class="right">begun</th></tr></thead>
            <tbody>
              {page.data.items.map((one) => (
                <tr key={one.id}>
                  <td><a class="mono" href={href(["operations", one.id])}>{one.id}</a></td>
                  <td>{one.verb}</td>
                  <td><code><Text value={one.where} /></code></td>
                  <td><StatusMark status={one.status} /></td>
                  <td class="right num">{count(one.progress.handled)} of {count(one.progress.planned)}</td>
                  <td class="right"><Ago at={one.begun_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}

function One({ id }: { id: string }) {
  const loaded = useLoad(`operation ${id}`, () => call("GET /v1/operations/{run}", { run: id }), { live: () => true });
  const one = loaded.data;
  return (
    <Page title="Operation" command={`goldseam operation show ${id}`} json={address("GET /v1/operations/{run}", { run: id })} actions={one && <Controls one={one} again={loaded.again} />}>
      {loaded.error && !one && <Problem error={loaded.error} back={<Back path={["operations"]} label="All operations" />} />}
      {!one && !loaded.error && <Busy />}
      {one && <Progress one={one} />}
    </Page>
  );
}

function Controls({ one, again }: { one: Operation; again(): void }) {
  if (one.ended_at != null) return null;
  const id = one.id;
  return (
    <>
      {one.status === "paused" ? (
        <Action label="Resume" title="Resume the operation" scope="operate" command={(reason) => withReason(`goldseam operation resume ${id}`, reason)} act={async (reason) => void (await call("POST /v1/operations/{run}/resume", { run: id }, { body: { reason } }))} done={again} />
      ) : (
        <Action label="Pause" title="Pause the operation" scope="operate" command={(reason) => withReason(`goldseam operation pause ${id}`, reason)} act={async (reason) => void (await call("POST /v1/operations/{run}/pause", { run: id }, { body: { reason } }))} done={again} />
      )}
      <Action label="Stop" title="Stop the operation" scope="operate" danger class="danger" command={(reason) => withReason(`goldseam operation stop ${id}`, reason)} act={async (reason) => void (await call("POST /v1/operations/{run}/stop", { run: id }, { body: { reason } }))} done={again}>
        <p>What it has done stays done.</p>
      </Action>
    </>
  );
}

function Progress({ one }: { one: Operation }) {
  const { progress } = one;
  const share = progress.planned ? progress.handled / progress.planned : one.ended_at != null ? 1 : 0;
  return (
    <div class="card">
      <p class="sentence">
        <StatusMark status={one.status} /> {one.verb} {plural(progress.planned, "run")}: {count(progress.handled)} handled
        {one.ended_at != null && ` in ${span(one.ended_at - one.begun_at)}`}
      </p>
      <progress value={share} max={1} aria-label="Progress" />
      <dl class="facts">
        <Fact name="which runs"><code><Text value={one.where} /></code></Fact>
        <Fact name="phase">{progress.phase}{progress.outcome ? `: ${progress.outcome}` : ""}</Fact>
        <Fact name="acted on"><span class="num" data-test="acted">{count(progress.acted)}</span></Fact>
        <Fact name="begun"><Ago at={one.begun_at} />{one.by && <> by <Text value={one.by} /></>}</Fact>
        {one.reason && <Fact name="reason"><Text value={one.reason} /></Fact>}
        {one.canary && <Fact name="stages">{one.canary}, {progress.stages_passed ?? 0} passed</Fact>}
        {one.rate && <Fact name="rate">{one.rate}</Fact>}
        {(["skipped", "refused"] as const).flatMap((kind) =>
          Object.entries(progress[kind] ?? {}).map(([why, { count: n, runs }]) => (
            <Fact key={kind + why} name={kind}>{plural(n, "run")}: <Text value={why} />, as {runs[0] && <RunLink run={runs[0]} />}</Fact>
          )),
        )}
        {progress.relapse && <Fact name="relapse"><RunLink run={progress.relapse.run} /> <Text value={progress.relapse.what} /></Fact>}
        <Fact name="its run"><RunLink run={one.id} /></Fact>
      </dl>
    </div>
  );
}
