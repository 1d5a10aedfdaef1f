// Failed and parked runs, grouped by their cause.

import { useState } from "preact/hooks";
import { address, call } from "../lib/api";
import { useLoad } from "../lib/load";
import { href, setQuery } from "../lib/router";
import { count, plural } from "../lib/time";
import { Ago, At, Busy, CodeLink, Empty, Page, Problem, quote, RunLink, Text } from "../parts/basics";
import { Bulk, literal } from "../parts/bulk";

export default function Failures({ query }: { query: URLSearchParams }) {
  const where = query.get("where") ?? "";
  const found = useLoad(`failures ${where}`, () => call("GET /v1/failures", { where }), { live: (event) => /^run\.(failed|parked|queued|completed|resumed|claimed|cancelled)$|^branch\./.test(event.type) });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const causes = [...chosen].filter((cause) => found.data?.groups.some((group) => group.cause === cause));
  const groups = found.data?.groups ?? [];
  const scope = where ? ` and (${where})` : "";
  return (
    <Page title="Failures" command={where ? `goldseam failures --where ${quote(where)}` : "goldseam failures"} json={address("GET /v1/failures", { where })}>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <div class="row">
          <div class="field grow">
            <label for="where">Condition</label>
            <input id="where" value={where} placeholder="workflow = order and updated > -2h" onChange={(event) => setQuery({ where: event.currentTarget.value })} />
          </div>
        </div>
      </form>
      {found.error && !found.data && <Problem error={found.error} back={<p><a href={href(["failures"])}>All failures, without a condition</a></p>} />}
      {!found.data && !found.error && <Busy />}
      {found.data && groups.length === 0 && (
        <Empty title="No failed or parked runs" command="goldseam ls --status failed,parked">A run that fails or is parked appears here, with all others of the same cause.</Empty>
      )}
      {found.data && groups.length > 0 && (
        <>
          <div class="list-head">
            <p role="status" class="num">{plural(found.data.total, "run")}, {plural(groups.length, "cause")}</p>
            {causes.length > 0 ? (
              <Bulk where={`status in (failed, parked) and cause in (${causes.map(literal).join(", ")})${scope}`} count={`${causes.length} selected:`} verbs={["retry", "resume", "cancel"]} />
            ) : (
              <Bulk where={`status in (failed, parked)${scope}`} count="all:" verbs={["retry", "resume"]} />
            )}
          </div>
          <ul class="cards">
            {groups.map((group) => (
              <li key={group.cause ?? group.example} class="card failure">
                <header>
                  {group.cause && (
                    <label class="check">
                      <input
                        type="checkbox"
                        checked={chosen.has(group.cause)}
                        onChange={() => {
                          const all = new Set(chosen);
                          if (!all.delete(group.cause!)) all.add(group.cause!);
                          setChosen(all);
                        }}
                      />
                      <span class="unseen">select the cause</span>
                      <span class="message"><Text value={group.message} /></span>
                    </label>
                  )}
                  <a class="big num" href={href(["runs"], { cause: group.cause ?? "", status: "failed,parked" })}>{count(group.count)} <span class="dim">{group.count === 1 ? "run" : "runs"}</span></a>
                </header>
                {!group.cause && <p class="message"><Text value={group.message} /></p>}
                <p class="dim">
                  {group.cause && <>cause <code>{group.cause}</code> · </>}
                  {group.code && <><CodeLink code={group.code} /> </>}
                  {group.step && <>step <code><Text value={group.step} /></code> · </>}
                  {group.workflows.join(", ")} · first <At at={group.first} /> · last <Ago at={group.last} /> · as <RunLink run={group.example} />
                </p>
                <div class="row">
                  {group.cause && <Bulk where={`status in (failed, parked) and cause = ${literal(group.cause)}${scope}`} verbs={["retry", "resume", "cancel"]} />}
                  {group.count > 1 && <Bulk where={`id = ${literal(group.example)}`} verbs={["retry"]} suffix=" one" />}
                </div>
              </li>
            ))}
          </ul>
          {found.data.left_out > 0 && <p class="dim">{plural(found.data.left_out, "run")} of further causes are not shown.</p>}
        </>
      )}
    </Page>
  );
}
