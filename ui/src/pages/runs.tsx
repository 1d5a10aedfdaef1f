// All runs: filters in the address, live, with operations on some or all.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Status, Summary } from "../api-types";
import { address, call, Refusal } from "../lib/api";
import { useLoad } from "../lib/load";
import { go, href, setQuery } from "../lib/router";
import { count, span } from "../lib/time";
import { Ago, Back, Busy, Empty, Page, Problem, quote, RunLink, StatusMark, Text } from "../parts/basics";
import { Bulk, literal } from "../parts/bulk";
import { Icon } from "../parts/icons";
import { useRoom, Virtual } from "../parts/virtual";

const STATUSES: Status[] = ["queued", "running", "waiting", "sleeping", "paused", "compensating", "parked", "completed", "failed", "cancelled"];
const SPANS: Array<[string, string]> = [["", "any time"], ["15m", "15 minutes"], ["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"]];
const PAGE = 100;
const VIEWS = "goldseam.views";

interface Filter {
  status: string;
  workflow: string;
  tag: string;
  since: string;
  cause: string;
  text: string;
  where: string;
}
const NAMES = ["status", "workflow", "tag", "since", "cause", "text", "where"] as const;

/** The filter as one condition. */
export function condition(filter: Filter): string {
  const parts: string[] = [];
  const statuses = filter.status.split(",").filter(Boolean);
  if (statuses.length === 1) parts.push(`status = ${statuses[0]}`);
  if (statuses.length > 1) parts.push(`status in (${statuses.join(", ")})`);
  if (filter.workflow) parts.push(`workflow = ${literal(filter.workflow)}`);
  if (filter.tag) {
    const at = filter.tag.indexOf("=");
    parts.push(at < 0 ? `has tag.${filter.tag}` : `tag.${filter.tag.slice(0, at)} = ${literal(filter.tag.slice(at + 1))}`);
  }
  if (filter.since) parts.push(`created > -${filter.since}`);
  if (filter.cause) parts.push(`cause = ${literal(filter.cause)}`);
  if (filter.text) parts.push(`(id contains ${literal(filter.text)} or error contains ${literal(filter.text)})`);
  if (filter.where) parts.push(parts.length ? `(${filter.where})` : filter.where);
  return parts.join(" and ");
}

export default function Runs({ query }: { query: URLSearchParams }) {
  const filter = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""])) as unknown as Filter;
  const where = condition(filter);
  const { rows, error, next, more, total } = useRuns(where);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => setChosen(new Set()), [where]);
  const selected = [...chosen];
  const target = selected.length ? `id in (${selected.map(literal).join(", ")})` : where;
  const last = useRef<string | undefined>(undefined);
  // With the shift key, everything between the last choice and this one.
  const toggle = (run: string, isRange: boolean) => {
    const all = new Set(chosen);
    const names = rows?.map((row) => row.run) ?? [];
    const [from, to] = [names.indexOf(last.current ?? ""), names.indexOf(run)].sort((a, b) => a - b);
    if (isRange && from! >= 0) names.slice(from, to! + 1).forEach((name) => all.add(name));
    else if (!all.delete(run)) all.add(run);
    last.current = run;
    setChosen(all);
  };
  const toggleAll = () => setChosen(new Set(chosen.size > 0 ? [] : rows?.map((row) => row.run)));
  return (
    <Page
      title="Runs"
      command={where ? `goldseam ls --where ${quote(where)}` : "goldseam ls"}
      json={address("GET /v1/runs", { where })}
      actions={<a class="button" href={href(["start"])}><Icon name="start" /> Start a run</a>}
    >
      <Filters filter={filter} />
      <div class="list-head">
        <p role="status" class="num">
          {rows === undefined ? "…" : total === undefined ? "" : selected.length ? `${count(selected.length)} selected` : `${count(total)} match`}
        </p>
        {rows && rows.length > 0 && (selected.length > 0 || where) && (
          <Bulk where={target} count={selected.length ? "selected:" : "all that match:"} />
        )}
        {selected.length > 0 && <button type="button" class="quiet" onClick={() => setChosen(new Set())}>Select none</button>}
      </div>
      {error && !(error.isOffline && rows) && <Problem error={error} back={<Back path={["runs"]} label="All runs, without a filter" />} />}
      {!rows && !error && <Busy />}
      {rows?.length === 0 && !error && (
        where ? (
          <Empty title="No run matches" command={`goldseam ls --where ${quote(where)}`}><a href={href(["runs"])}>All runs, without a filter</a></Empty>
        ) : (
          <Empty title="No runs yet" command="goldseam start WORKFLOW --input '{}'">Start a worker with a workflow, then a run of it. To see everything at once: goldseam demo</Empty>
        )
      )}
      {rows && rows.length > 0 && <RunTable rows={rows} chosen={chosen} toggle={toggle} toggleAll={toggleAll} wanted={next ? more : undefined} total={total} />}
    </Page>
  );
}

/** A page with at least one row, unless there are no more: the server may send short or empty pages before the last. */
async function pageOf(where: string, after?: string, abort?: AbortSignal) {
  for (;;) {
    const page = await call("GET /v1/runs", { where, limit: PAGE, ...(after ? { after } : {}) }, abort ? { abort } : {});
    if (page.items.length > 0 || page.next == null) return page;
    after = page.next;
  }
}

/** The rows of a condition: the first page, further pages on demand, and changes as they happen. */
function useRuns(where: string) {
  const [rows, setRows] = useState<Summary[]>();
  const [next, setNext] = useState<string | null | undefined>();
  const [error, setError] = useState<Refusal>();
  const state = useRef({ where, loaded: 0, isLoading: false });
  state.current.where = where;
  const total = useLoad(`total ${where}`, () => call("GET /v1/groups", where ? { where } : {}), { live: (event) => event.type.startsWith("run.") });
  const first = useLoad(`runs ${where}`, (abort) => pageOf(where, undefined, abort), { live: () => true });
  useEffect(() => {
    setRows(undefined);
    setNext(undefined);
  }, [where]);
  useEffect(() => {
    if (first.error) setError(first.error);
    if (!first.data) return;
    setError(undefined);
    const fresh = first.data.items;
    const known = new Set(fresh.map((row) => row.run));
    // New rows come first; rows of further pages stay below.
    setRows((old) => (old && old.length > PAGE ? [...fresh, ...old.filter((row) => !known.has(row.run))] : fresh));
    setNext((old) => (old === undefined || (rows?.length ?? 0) <= PAGE ? first.data!.next : old));
  }, [first.data, first.error]);
  const more = () => {
    if (!next || state.current.isLoading) return;
    state.current.isLoading = true;
    pageOf(where, next)
      .then((page) => {
        if (state.current.where !== where) return;
        setRows((old) => {
          const known = new Set(old?.map((row) => row.run));
          return [...(old ?? []), ...page.items.filter((row) => !known.has(row.run))];
        });
        setNext(page.next);
      })
      .catch((thrown) => setError(thrown))
      .finally(() => (state.current.isLoading = false));
  };
  return { rows, next, error, more, total: total.data?.total };
}

function RunTable({ rows, chosen, toggle, toggleAll, wanted, total }: { rows: Summary[]; chosen: ReadonlySet<string>; toggle(run: string, isRange: boolean): void; toggleAll(): void; wanted: (() => void) | undefined; total: number | undefined }) {
  const height = useRoom(330, 320);
  return (
    <div class="table runs-table" role="table" aria-label="Runs" aria-rowcount={total ?? rows.length}>
      <Virtual
        count={rows.length}
        rowHeight={36}
        height={height}
        label="Rows"
        role="rowgroup"
        headHeight={34}
        head={
          <div class="tr head" role="row">
            <span role="columnheader" class="c-check"><input type="checkbox" aria-label="select all shown rows" checked={chosen.size > 0} onChange={toggleAll} /></span>
            <span role="columnheader">status</span>
            <span role="columnheader">run</span>
            <span role="columnheader">workflow</span>
            <span role="columnheader" class="c-step">at</span>
            <span role="columnheader" class="right c-steps">steps</span>
            <span role="columnheader" class="right c-heal">healed</span>
            <span role="columnheader" class="right">age</span>
            <span role="columnheader" class="right c-took">took</span>
          </div>
        }
        shown={(_, to) => to >= rows.length - 20 && wanted?.()}
        row={(at) => {
          const row = rows[at]!;
          return (
            <div key={row.run} class={chosen.has(row.run) ? "tr chosen" : "tr"} role="row" aria-rowindex={at + 1}>
              <span role="cell" class="c-check">
                <input type="checkbox" aria-label={`select ${row.run}`} checked={chosen.has(row.run)} onClick={(event) => toggle(row.run, event.shiftKey)} />
              </span>
              <span role="cell"><StatusMark status={row.status} /></span>
              <span role="cell" class="ellipsis"><RunLink run={row.run} /></span>
              <span role="cell" class="ellipsis"><Text value={row.workflow} />{row.version > 1 && <span class="dim">@{row.version}</span>}</span>
              <span role="cell" class="ellipsis dim mono c-step"><Text value={row.trouble?.message ?? row.step ?? row.waits?.[0]?.path ?? ""} /></span>
              <span role="cell" class="right num c-steps">{row.steps ?? 0}</span>
              <span role="cell" class="right num c-heal">{row.recoveries ? <span class="gold-mark"><Icon name="recover" /> {row.recoveries}</span> : ""}</span>
              <span role="cell" class="right num"><Ago at={row.created_at} suffix="" /></span>
              <span role="cell" class="right num c-took">{row.finished_at == null ? "" : span(row.finished_at - row.created_at)}</span>
            </div>
          );
        }}
      />
    </div>
  );
}

type SuggestedFilter = "workflow" | "tag" | "cause";

/** A filter that suggests the values that runs have. */
function Suggested({ id, label, value, hint }: { id: SuggestedFilter; label: string; value: string; hint: string }) {
  const [values, setValues] = useState<string[]>([]);
  const asked = useRef<string | undefined>(undefined);
  const suggest = (text: string) => {
    if (asked.current === text) return;
    asked.current = text;
    call("GET /v1/suggestions", { of: id, limit: 50, ...(text ? { text } : {}) }).then(
      ({ items }) => asked.current === text && setValues(items.map((one) => one.value)),
      () => {},
    );
  };
  return (
    <div class="field">
      <label for={`f-${id}`}>{label}</label>
      <input
        id={`f-${id}`}
        list={`l-${id}`}
        value={value}
        placeholder={hint}
        onFocus={() => suggest("")}
        onInput={(event) => suggest(event.currentTarget.value)}
        onChange={(event) => setQuery({ [id]: event.currentTarget.value })}
      />
      <datalist id={`l-${id}`}>{values.map((one) => <option key={one} value={one} />)}</datalist>
    </div>
  );
}

function Filters({ filter }: { filter: Filter }) {
  const statuses = filter.status.split(",").filter(Boolean);
  const [views, setViews] = useState<Record<string, string>>(() => JSON.parse(localStorage.getItem(VIEWS) ?? "{}"));
  const keep = (all: Record<string, string>) => (localStorage.setItem(VIEWS, JSON.stringify(all)), setViews(all));
  const present = location.search.slice(1);
  const [name, setName] = useState("");
  const [isOpen, setOpen] = useState(false);
  const field = (id: keyof Filter, label: string, props: Record<string, unknown> = {}) => (
    <div class="field">
      <label for={`f-${id}`}>{label}</label>
      <input id={`f-${id}`} value={filter[id]} onChange={(event) => setQuery({ [id]: event.currentTarget.value })} {...props} />
    </div>
  );
  const suggested = (id: SuggestedFilter, label: string, hint = "") => <Suggested key={id} id={id} label={label} value={filter[id]} hint={hint} />;
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <fieldset class="chips">
        <legend class="unseen">Status</legend>
        {STATUSES.map((status) => (
          <label key={status} class="chip">
            <input
              type="checkbox"
              checked={statuses.includes(status)}
              onChange={() => setQuery({ status: (statuses.includes(status) ? statuses.filter((one) => one !== status) : [...statuses, status]).join(",") })}
            />
            <StatusMark status={status} />
          </label>
        ))}
      </fieldset>
      <button type="button" class="narrow-only small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "Fewer filters" : "More filters"}</button>
      <div class={isOpen ? "row fields open" : "row fields"}>
        {suggested("workflow", "Workflow")}
        {suggested("tag", "Tag", "key=value")}
        <div class="field">
          <label for="f-since">Since</label>
          <select id="f-since" value={filter.since} onChange={(event) => setQuery({ since: event.currentTarget.value })}>
            {SPANS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            {filter.since && !SPANS.some(([value]) => value === filter.since) && <option value={filter.since}>{filter.since}</option>}
          </select>
        </div>
        {suggested("cause", "Cause")}
        {field("text", "Text", { placeholder: "in id or error" })}
        {field("where", "Condition", { placeholder: "amount > 100 and region = \"eu\"", class: "grow" })}
      </div>
      <div class="row views">
        {Object.entries(views).map(([label, saved]) => (
          <span key={label} class="view">
            <a href={`/runs?${saved}`} aria-current={saved === present ? "page" : undefined}><Text value={label} /></a>
            <button type="button" class="quiet small" aria-label={`Delete the view ${label}`} onClick={() => keep(Object.fromEntries(Object.entries(views).filter(([one]) => one !== label)))}>
              <Icon name="close" />
            </button>
          </span>
        ))}
        {present && (
          <span class="save-view">
            <label for="view-name" class="unseen">Name of the view</label>
            <input id="view-name" placeholder="name this view" value={name} onInput={(event) => setName(event.currentTarget.value)} />
            <button type="button" disabled={!name.trim()} onClick={() => (keep({ ...views, [name.trim()]: present }), setName(""))}>Save view</button>
            <button type="button" class="quiet" onClick={() => go(["runs"])}>Clear</button>
          </span>
        )}
      </div>
    </form>
  );
}

