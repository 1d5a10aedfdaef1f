// Small pieces that every page uses.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Status } from "../api-types";
import { address, fetchText, type Refusal } from "../lib/api";
import { pretty, Raw } from "../lib/json";
import { href, runHref } from "../lib/router";
import { age, bytes, count, iso, local, plural, useNow } from "../lib/time";
import { Icon, type IconName } from "./icons";

// Characters that change the order or the look of the text around them.
const CONTROL = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])/;

/** Text of a user. Control characters keep their place and are visible; the text content stays exact. */
export function Text({ value }: { value: string }) {
  if (!CONTROL.test(value)) return <bdi>{value}</bdi>;
  return (
    <bdi>
      {value.split(CONTROL).map((part, at) =>
        at % 2 === 0 ? (
          part
        ) : (
          <span class="control" data-code={`U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`}>
            {part}
          </span>
        ),
      )}
    </bdi>
  );
}

const STATUS_ICON: Record<Status, IconName> = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  sleeping: "sleeping",
  paused: "paused",
  compensating: "undo",
  parked: "parked",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
};

export function StatusMark({ status }: { status: Status }) {
  return (
    <span class={`status is-${status}`}>
      <Icon name={STATUS_ICON[status] ?? "waiting"} />
      {status}
    </span>
  );
}

export function RunLink({ run }: { run: string }) {
  return (
    <a class="mono" href={runHref(run)}>
      <Text value={run} />
    </a>
  );
}

/** How long ago, with the exact time as a title. */
export function Ago({ at, suffix = " ago" }: { at: number; suffix?: string }) {
  const now = useNow();
  return (
    <time class="num" dateTime={iso(at)} title={iso(at)}>
      {age(now - at)}
      {suffix}
    </time>
  );
}

export function At({ at }: { at: number }) {
  return (
    <time class="num" dateTime={iso(at)} title={iso(at)}>
      {local(at)}
    </time>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, set] = useState(false);
  return (
    <button
      type="button"
      class="quiet small"
      aria-label={label}
      onClick={async () => {
        await navigator.clipboard.writeText(text).catch(() => {});
        set(true);
        setTimeout(() => set(false), 1500);
      }}
    >
      <Icon name={done ? "done" : "copy"} />
      <span class="copied" aria-live="polite">{done ? "Copied" : ""}</span>
    </button>
  );
}

/** A shell word. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command that does the same as the page, and the document behind it. */
export function Command({ line, json }: { line: string; json?: string }) {
  const [open, set] = useState(false);
  return (
    <div class="command">
      <span class="prompt" aria-hidden="true">
        $
      </span>
      <code>
        <Text value={line} />
      </code>
      <Copy text={line} label="Copy the command" />
      {json && (
        <a
          class="button quiet small"
          href={json}
          onClick={(event) => {
            event.preventDefault();
            set(true);
          }}
        >
          JSON
        </a>
      )}
      {open && json && <JsonDrawer url={json} close={() => set(false)} />}
    </div>
  );
}

/** The document of an address, as the server sends it. */
function JsonDrawer({ url, close }: { url: string; close(): void }) {
  const [text, set] = useState<string>();
  useEffect(() => {
    fetchText("GET ", url).then(set, (error) => set(JSON.stringify({ error: String(error.message) })));
  }, [url]);
  return (
    <Dialog title={`GET ${url}`} close={close} wide>
      {text === undefined ? <Busy /> : <Json raw={new Raw(text)} name="document.json" />}
    </Dialog>
  );
}

export function Busy() {
  return (
    <p class="busy" role="status">
      Loading…
    </p>
  );
}

export function Problem({ error, back }: { error: Refusal; back?: ComponentChildren }) {
  return (
    <div class="problem" role="alert">
      <Icon name="failed" />
      <div>
        <p>
          {error.code && <CodeLink code={error.code} />} <Text value={error.message} />
        </p>
        {error.hint && (
          <p class="dim">
            <Text value={error.hint} />
          </p>
        )}
        {back}
      </div>
    </div>
  );
}

/** A code that opens its page. */
export function CodeLink({ code, name }: { code: string; name?: string | null | undefined }) {
  const [text, set] = useState<string>();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        class="code"
        title={`What ${code} means`}
        onClick={() => {
          setOpen(true);
          fetchText("GET ", address("GET /v1/codes/{code}", { code })).then(set, (error) => set(String(error.message)));
        }}
      >
        {code}
        {name && <span class="dim"> {name}</span>}
      </button>
      {open && (
        <Dialog title={`goldseam explain ${code}`} close={() => setOpen(false)} wide>
          {text === undefined ? <Busy /> : <pre class="prose">{text}</pre>}
        </Dialog>
      )}
    </>
  );
}

export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command: string }) {
  return (
    <div class="empty">
      <Icon name="bowl" />
      <h2>{title}</h2>
      {children && <p class="dim">{children}</p>}
      <Command line={command} />
    </div>
  );
}

/** Lines of JSON that are added to the page at once. */
const CHUNK = 400;
const SHOWN_BYTES = 64 * 1024;

/** JSON of a user: exact, with its size, to copy and to save. */
export function Json({ raw, name, label }: { raw: Raw; name: string; label?: string }) {
  const [all, set] = useState(false);
  const whole = raw.text.length <= SHOWN_BYTES || all;
  const chunks = useMemo(() => {
    const lines = pretty(whole ? raw.text : raw.text.slice(0, SHOWN_BYTES)).split("\n");
    const parts: string[] = [];
    for (let at = 0; at < lines.length; at += CHUNK) parts.push(lines.slice(at, at + CHUNK).join("\n"));
    return parts;
  }, [raw.text, whole]);
  const size = useMemo(() => bytes(new Blob([raw.text]).size), [raw.text]);
  return (
    <figure class="json">
      <figcaption>
        {label && <strong>{label}</strong>}
        <span class="dim num">{size}</span>
        <Copy text={raw.text} label={`Copy ${label ?? "JSON"}`} />
        <button type="button" class="quiet small" onClick={() => save(raw.text, name)}>
          Save
        </button>
      </figcaption>
      <div class={chunks.length > 1 ? "lines many" : "lines"} tabIndex={0} role="group" aria-label={label ?? "JSON"}>
        {chunks.map((chunk, at) => (
          <pre key={at}>
            <Text value={chunk} />
          </pre>
        ))}
        {!whole && (
          <button type="button" onClick={() => set(true)}>
            Show all {size}
          </button>
        )}
      </div>
    </figure>
  );
}

export function save(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A modal dialog that returns the focus to where it was. */
export function Dialog(props: { title: string; close(): void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={ref}
      class={props.wide ? "wide" : ""}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.close();
      }}
      onClick={(event) => event.target === ref.current && props.close()}
    >
      <div class="dialog-body">
        <header>
          <h2>
            <Text value={props.title} />
          </h2>
          <button type="button" class="quiet" aria-label="Close" onClick={props.close}>
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

export function Page(props: {
  title: ComponentChildren;
  command: string;
  json?: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <>
      <header class="page-head">
        <h1 tabIndex={-1}>{props.title}</h1>
        <div class="actions">{props.actions}</div>
        <Command line={props.command} {...(props.json ? { json: props.json } : {})} />
      </header>
      {props.children}
    </>
  );
}

interface FoldedProps<T> {
  class: string;
  label?: string;
  /** What an item is, in the singular. */
  what: string;
  items: T[];
  /** Show the last items instead of the first. */
  latest?: boolean;
  row(item: T, at: number): ComponentChildren;
}

/** Items of a list that are shown before all are, and that a button adds. */
const FOLDED = 8;
const UNFOLDED = 500;

/** A list that shows a few items until more are wanted. */
export function Folded<T>({ class: kind, label, what, items, latest, row }: FoldedProps<T>) {
  const [wanted, setWanted] = useState(FOLDED);
  // One hidden item would take as much room as the button.
  const shown = items.length <= wanted + 1 ? items.length : wanted;
  const from = latest ? items.length - shown : 0;
  const hidden = items.length - shown;
  const more = hidden > 0 && (
    <li><button type="button" class="quiet small" onClick={() => setWanted(wanted + UNFOLDED)}>{`Show ${count(Math.min(hidden, UNFOLDED))} ${latest ? "earlier" : "more"}`}</button>{hidden > UNFOLDED && <span class="dim"> of {plural(hidden, what)}</span>}</li>
  );
  return (
    <ul class={kind} aria-label={label}>
      {latest && more}
      {items.slice(from, from + shown).map((item, at) => row(item, from + at))}
      {!latest && more}
    </ul>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Tabs({ tabs, current, link }: { tabs: Array<[string, string, number?]>; current: string; link(tab: string): string }) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      {tabs.map(([id, label, number]) => (
        <a key={id} href={link(id)} aria-current={id === current ? "page" : undefined}>
          {label}
          {number !== undefined && <span class="pill num">{number}</span>}
        </a>
      ))}
    </nav>
  );
}

export function Field(props: { label: string; hint?: string; children: (id: string) => JSX.Element }) {
  const id = useRef(`f${Math.random().toString(36).slice(2)}`).current;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.hint && <p class="dim small-text">{props.hint}</p>}
    </div>
  );
}

/** Brings an element into view when it appears, or when it shows something else. */
export function useShown(of: unknown) {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => ref.current?.scrollIntoView({ block: "nearest" }), [of]);
  return ref;
}

export const Back = ({ path, label }: { path: string[]; label: string }) => (
  <p>
    <a href={href(path)}>{label}</a>
  </p>
);
