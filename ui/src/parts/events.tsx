// The log of a run: every event, its JSON, and a scrubber that shows the state at an event.

import { useEffect, useRef, useState } from "preact/hooks";
import type { EventDoc } from "../api-types";
import { call, type Refusal } from "../lib/api";
import { Raw } from "../lib/json";
import { place, runHref, setQuery } from "../lib/router";
import { useSignal } from "../lib/signal";
import { count, iso } from "../lib/time";
import { Ago, At, Busy, Fact, Json, Problem, StatusMark, Text, useShown } from "./basics";
import { Icon } from "./icons";
import { useLoad } from "../lib/load";
import { useRoom, Virtual } from "./virtual";

const PAGE = 200;

/** Events by position, loaded in pages as they are needed. */
export function usePages(run: string, end: number) {
  const pages = useRef(new Map<number, Array<EventDoc | undefined>>());
  const asked = useRef(new Set<number>());
  /** The last position that was read, by page. A position before it without an event is unreadable. */
  const read = useRef(new Map<number, number>());
  const [, render] = useState(0);
  const [error, setError] = useState<Refusal>();
  useEffect(() => {
    pages.current.clear();
    asked.current.clear();
    read.current.clear();
  }, [run]);
  const pageOf = (seq: number) => Math.floor((seq - 1) / PAGE);
  const get = (seq: number) => pages.current.get(pageOf(seq))?.[(seq - 1) % PAGE];
  const isLost = (seq: number) => !get(seq) && seq <= (read.current.get(pageOf(seq)) ?? 0);
  const want = (from: number, to: number) => {
    for (let page = Math.floor(Math.max(0, from - 1) / PAGE); page <= Math.floor((to - 1) / PAGE); page++) {
      const wanted = Math.min((page + 1) * PAGE, end);
      if ((read.current.get(page) ?? 0) >= wanted || asked.current.has(page)) continue;
      asked.current.add(page);
      void load(page, wanted).finally(() => asked.current.delete(page));
    }
  };
  const load = async (page: number, wanted: number) => {
    const held = pages.current.get(page) ?? [];
    let after = read.current.get(page) ?? page * PAGE;
    const last = (page + 1) * PAGE;
    try {
      while (after < last) {
        const part = await call("GET /v1/runs/{run}/history", { run, after, limit: last - after });
        for (const event of part.items) if (event.seq <= last) held[(event.seq - 1) % PAGE] = event;
        pages.current.set(page, held);
        const next = part.items[part.items.length - 1]?.seq ?? 0;
        const isEnd = next <= after || part.next == null;
        after = Math.min(last, Math.max(next, isEnd ? wanted : after));
        read.current.set(page, after);
        render((n) => n + 1);
        if (isEnd) break;
      }
      setError(undefined);
    } catch (thrown) {
      setError(thrown as Refusal);
    }
  };
  return { get, want, isLost, error };
}

const dataOf = (event: EventDoc | undefined) => (event?.data as unknown as Raw | undefined)?.value;

/** The author of an event: a person, a node, or the owner of its epoch. `claim` is the event that began the epoch. */
function actor(event: EventDoc, claim: EventDoc | undefined): string {
  const data = dataOf(event);
  if (typeof data?.by === "string") return data.by;
  return data?.note?.by ?? data?.node ?? dataOf(claim)?.node ?? (event.epoch == null ? "outside" : `epoch ${event.epoch}`);
}

export function Events({ run, end, at, damage }: { run: string; end: number; at: number | undefined; damage: Array<{ seq: number; reason: string }> }) {
  const { query } = useSignal(place);
  const named = query.get("event") ? Number(query.get("event")) : undefined;
  const [open, setOpen] = useState(named);
  // A link on the same page may name another event.
  useEffect(() => {
    if (named !== undefined) setOpen(named);
  }, [named]);
  const { get, want, isLost, error } = usePages(run, end);
  const reasonOf = (seq: number) => damage.find((one) => one.seq === seq)?.reason ?? "it cannot be decoded";
  const [scrub, setScrub] = useState(at ?? end);
  useEffect(() => setScrub(at ?? end), [at, end]);
  useEffect(() => {
    if (open) want(open, open);
  }, [open]);
  const chosen = open ? get(open) : undefined;
  const claimOf = (event: EventDoc) => (event.epoch == null ? undefined : get(Number(event.epoch)));
  const room = useRoom(380, 300);
  return (
    <div class="events">
      <div class="scrubber">
        <label for="scrub">State at event <strong class="num">#{count(scrub)}</strong> of {count(end)}</label>
        <input id="scrub" type="range" min={1} max={Math.max(1, end)} value={scrub} onInput={(event) => setScrub(Number(event.currentTarget.value))} onChange={(event) => setQuery({ at: Number(event.currentTarget.value) === end ? undefined : event.currentTarget.value })} />
        <StateAt run={run} at={scrub} end={end} />
      </div>
      {error && <Problem error={error} />}
      <div class={open ? "split has-open" : "split"}>
      <div class="table events-table" role="table" aria-label="Events" aria-rowcount={end}>
        <Virtual
          count={end}
          rowHeight={32}
          height={room}
          fromEnd={open === undefined && end > 200}
          fromRow={open === undefined ? undefined : open - 1}
          label="Rows"
          role="rowgroup"
          headHeight={34}
          head={
            <div class="tr head" role="row">
              <span role="columnheader" class="right">#</span>
              <span role="columnheader">type</span>
              <span role="columnheader" class="c-what">what</span>
              <span role="columnheader">branch</span>
              <span role="columnheader" class="c-actor">actor</span>
              <span role="columnheader" class="right">age</span>
            </div>
          }
          shown={(from, to) => want(from + 1, to)}
          row={(index) => {
            const seq = index + 1;
            const event = get(seq);
            return (
              <div key={seq} class={`tr ${seq > scrub ? "future" : ""} ${open === seq ? "chosen" : ""} ${event && GOLD.has(event.type) ? "gold-row" : ""}`} role="row" aria-rowindex={seq}>
                <span role="cell" class="right num dim">{seq}</span>
                <span role="cell" class="ellipsis">
                  {event ? <button type="button" class="link" aria-expanded={open === seq} onClick={() => setOpen(open === seq ? undefined : seq)}>{event.type}</button> : isLost(seq) ? <span class="warn-text"><Icon name="warn" /> unreadable</span> : <span class="dim">…</span>}
                </span>
                <span role="cell" class="ellipsis dim c-what"><Text value={event ? summary(event) : isLost(seq) ? reasonOf(seq) : ""} /></span>
                <span role="cell" class="mono">{event?.branch}</span>
                <span role="cell" class="ellipsis dim c-actor"><Text value={event ? actor(event, claimOf(event)) : ""} /></span>
                <span role="cell" class="right num dim" title={event && iso(event.at_ms)}>{event && <Ago at={event.at_ms} suffix="" />}</span>
              </div>
            );
          }}
        />
      </div>
      {open && <Opened run={run} seq={open} event={chosen} claim={chosen && claimOf(chosen)} isKnown={open <= end} lost={isLost(open) ? reasonOf(open) : undefined} close={() => setOpen(undefined)} />}
      </div>
    </div>
  );
}

/** One event, with everything that it records. */
function Opened({ run, seq, event, claim, isKnown, lost, close }: { run: string; seq: number; event: EventDoc | undefined; claim: EventDoc | undefined; isKnown: boolean; lost: string | undefined; close(): void }) {
  const ref = useShown(seq);
  return (
    <section ref={ref} class="card" aria-label={`Event ${seq}`}>
      <header class="card-head">
        <h2><span class="num dim">#{seq}</span> {event?.type}</h2>
        <button type="button" class="quiet small" aria-label="Close the event" onClick={close}><Icon name="close" /></button>
      </header>
      {event ? (
        <>
          <dl class="facts">
            <Fact name="at"><At at={event.at_ms} /></Fact>
            <Fact name="branch"><span class="mono">{event.branch}</span></Fact>
            <Fact name="actor"><Text value={actor(event, claim)} /></Fact>
            {event.epoch != null && <Fact name="epoch"><span class="num">{event.epoch}</span></Fact>}
          </dl>
          {event.data ? <Json raw={event.data as unknown as Raw} name={`${run}-${seq}.json`} label="Data" /> : <p class="dim">Events of this type have no data.</p>}
          <p><a href={runHref(run, { at: String(seq), tab: "events" })}>The state at this event</a></p>
        </>
      ) : lost !== undefined ? (
        <>
          <p class="warn-text"><Icon name="warn" /> The store has an event at this position, but it is unreadable: <Text value={lost} /></p>
          <p class="dim">What helps: <code>goldseam explain log-damaged</code></p>
        </>
      ) : isKnown ? (
        <Busy />
      ) : (
        <p class="dim">The log has no event #{seq} yet.</p>
      )}
    </section>
  );
}

const GOLD = new Set(["run.recovered", "branch.opened"]);

/** A few words about an event. */
export function summary(event: EventDoc): string {
  const raw = event.data as unknown as Raw | undefined;
  if (!raw) return "";
  if (raw.text.length > 100_000) return "…";
  const data = raw.value;
  const words = [data.path ?? data.question ?? data.name ?? data.run ?? data.to, data.rule, data.code, data.reason ?? data.message ?? data.failure?.message ?? data.prompt ?? data.evidence];
  return words.filter((word) => typeof word === "string" && word).join(" · ").slice(0, 300);
}

function StateAt({ run, at, end }: { run: string; at: number; end: number }) {
  const [asked, setAsked] = useState(at);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(at), 150);
    return () => clearTimeout(timer);
  }, [at]);
  const state = useLoad(`at ${run} ${asked}`, () => call("GET /v1/runs/{run}", { run, ...(asked < end ? { at: asked } : {}) }), { group: run });
  if (state.error) return <Problem error={state.error} />;
  if (!state.data) return <Busy />;
  const found = state.data;
  return (
    <dl class="facts" aria-live="polite">
      <Fact name="status"><StatusMark status={found.status} /></Fact>
      <Fact name="branch">b{found.branch}</Fact>
      <Fact name="steps"><span class="num">{found.steps_done}</span></Fact>
      {found.owner && <Fact name="node"><span class="mono">{found.owner}</span></Fact>}
      {found.step && <Fact name="at"><code><Text value={found.step} /></code></Fact>}
      {(found.waits ?? []).length > 0 && <Fact name="waits for"><code><Text value={found.waits!.map((wait) => wait.path).join(", ")} /></code></Fact>}
      <Fact name="unread mail"><span class="num">{found.mail_unread ?? 0}</span></Fact>
    </dl>
  );
}
