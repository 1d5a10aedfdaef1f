// The frame of every page: navigation, login, and whether the server answers.

import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { identify, logIn, logOut, online, overdue, Refusal, session } from "./lib/api";
import { useLoad } from "./lib/load";
import { go, href, place } from "./lib/router";
import { useSignal } from "./lib/signal";
import { choose, theme } from "./lib/theme";
import { call } from "./lib/api";
import { Busy, Field, Problem, Text } from "./parts/basics";
import { Icon, type IconName } from "./parts/icons";
import { Seal } from "./parts/seal";
import Health from "./pages/health";

type PageModule = Promise<{ default: ComponentType<any> }>;
interface PageEntry {
  path: string;
  label: string;
  icon: IconName;
  load?: () => PageModule;
  /** Whether it begins a group in the navigation. */
  begins?: boolean;
}

const PAGES: PageEntry[] = [
  { path: "", label: "Health", icon: "health" },
  { path: "runs", label: "Runs", icon: "runs", load: () => import("./pages/runs") },
  { path: "failures", label: "Failures", icon: "failed", load: () => import("./pages/failures") },
  { path: "recoveries", label: "Recoveries", icon: "recover", load: () => import("./pages/recoveries") },
  { path: "inbox", label: "Inbox", icon: "inbox", load: () => import("./pages/inbox"), begins: true },
  { path: "operations", label: "Operations", icon: "operation", load: () => import("./pages/operations") },
  { path: "start", label: "Start a run", icon: "start", load: () => import("./pages/start") },
  { path: "queues", label: "Queues, locks, nodes", icon: "queue", load: () => import("./pages/queues"), begins: true },
  { path: "api", label: "API", icon: "api", load: () => import("./pages/api") },
];
/** Other addresses of pages. */
const ALIASES: Record<string, string> = { health: "", locks: "queues", nodes: "queues" };
const loaded = new Map<string, ComponentType<any>>([["", Health]]);

const RENEWED = "goldseam.renewed";

/** Loads the document again if the server answers and no longer has the code of this one: it was updated. Once for each build. */
async function renew(): Promise<void> {
  try {
    if (sessionStorage.getItem(RENEWED) === import.meta.url) return;
    const reply = await fetch("/", { headers: { accept: "text/html" }, cache: "no-store" });
    if (!reply.ok) return;
    sessionStorage.setItem(RENEWED, import.meta.url);
    location.reload();
  } catch {
    // The server is gone, or the browser keeps nothing: the page says that its code cannot be loaded.
  }
}

/** Loads the code of a page. */
function usePage(name: string, load: (() => PageModule) | undefined) {
  const [, render] = useState(0);
  const [error, setError] = useState<string>();
  useEffect(() => {
    if (loaded.has(name) || !load) return;
    load().then(
      (module) => (loaded.set(name, module.default), setError(undefined), render((n) => n + 1)),
      () => (setError(name), void renew()),
    );
  }, [name]);
  // A browser does not fetch failed code again, so the page is loaded again once the server is back.
  const state = useSignal(online);
  const wasGone = useRef(false);
  useEffect(() => {
    wasGone.current = error === name && (wasGone.current || state === "no");
    if (wasGone.current && state === "yes") location.reload();
  }, [error, name, state]);
  return { Found: loaded.get(name), failed: error === name };
}

export function App() {
  const { path } = useSignal(place);
  return path[0] === "pass" ? <WithPass /> : <WithKey />;
}

/** The page of a pass needs no key. */
function WithPass() {
  const { Found, failed } = usePage("pass", () => import("./pages/pass"));
  if (Found) return <Found />;
  return <main class="lonely">{failed ? <Problem error={NOT_LOADED} /> : <Busy />}</main>;
}

const NOT_LOADED = new Refusal({ status: 1, detail: "the code of this page cannot be loaded", hint: "reload the page: the server may have been updated" });

function WithKey() {
  const { access, ended } = useSignal(session);
  const [error, setError] = useState<Refusal>();
  const state = useSignal(online);
  useEffect(() => {
    if (access || ended) return;
    identify().then(() => setError(undefined), (thrown) => thrown instanceof Refusal && thrown.status !== 401 && setError(thrown));
  }, [access, ended, state]);
  useEffect(() => {
    if (!error || access) return;
    const timer = setInterval(() => identify().then(() => setError(undefined), () => {}), 2000);
    return () => clearInterval(timer);
  }, [error, access]);
  if (!access && ended) return <Login why={ended} />;
  if (!access) return <main class="lonely"><Connection />{error ? <Problem error={error} back={<p class="dim">The page tries again by itself.</p>} /> : <Busy />}</main>;
  return <Frame />;
}

function Frame() {
  const here = useSignal(place);
  const [menu, setMenu] = useState(false);
  const named = here.path[0] ?? "";
  const first = ALIASES[named] ?? named;
  const isRun = first === "runs" && here.path.length > 1;
  const depth = first === "runs" || first === "operations" ? 2 : 1;
  const entry = here.path.length > depth ? undefined : PAGES.find((page) => page.path === first);
  const name = !entry ? "" : isRun ? "run" : first;
  const { Found, failed } = usePage(name, isRun ? () => import("./pages/run") : entry?.load);
  const main = useRef<HTMLElement>(null);
  const route = here.path.join("/");
  useEffect(() => {
    setMenu(false);
    document.title = `${here.path[1] ?? entry?.label ?? "No such page"} · Goldseam`;
  }, [route]);
  // A new page gets the focus, but not the page that the browser opened.
  const opened = useRef<string | undefined>(route);
  useEffect(() => {
    if (opened.current === route) return;
    opened.current = undefined;
    main.current?.querySelector<HTMLElement>("h1")?.focus();
  }, [route, Found]);
  useShortcuts();
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <Side open={menu} first={first} toggle={() => setMenu(!menu)} />
      <main id="main" ref={main} tabIndex={-1}>
        <Connection />
        {Found && entry ? (
          <Found key={isRun ? here.path[1] : name} path={here.path} query={here.query} />
        ) : failed ? (
          <Problem error={NOT_LOADED} />
        ) : entry ? (
          <Busy />
        ) : (
          <Unknown path={here.path} />
        )}
      </main>
    </div>
  );
}

function Unknown({ path }: { path: string[] }) {
  return (
    <div class="problem" role="alert">
      <Icon name="warn" />
      <div>
        <h1 tabIndex={-1}>No such page</h1>
        <p>
          There is no page <code><Text value={path.join("/")} /></code>.
        </p>
        <p>
          <a href={href([])}>Health</a> is a good place to begin, or <a href={href(["runs"])}>all runs</a>.
        </p>
      </div>
    </div>
  );
}

function Side({ open, first, toggle }: { open: boolean; first: string; toggle(): void }) {
  const look = useSignal(theme);
  const { access, key } = useSignal(session);
  const questions = useLoad("questions", () => call("GET /v1/questions", { limit: 100 }), {
    live: (event) => /^(input|wait|run)\./.test(event.type),
  });
  const asked = questions.data?.items.length ?? 0;
  return (
    <header class={open ? "side open" : "side"}>
      <div class="brand">
        <a href={href([])} aria-label="Goldseam: Health">
          <Seal />
          <span>Goldseam</span>
        </a>
        <button type="button" class="quiet menu" aria-expanded={open} aria-controls="nav" onClick={toggle}>
          <Icon name="menu" />
          Menu
        </button>
      </div>
      <nav id="nav" aria-label="Pages">
        {PAGES.map((page) => (
          <a key={page.path} class={page.begins ? "begins" : ""} href={href(page.path ? [page.path] : [])} aria-current={page.path === first ? "page" : undefined}>
            <Icon name={page.icon} />
            <span class="ellipsis">{page.label}</span>
            {page.path === "inbox" && asked > 0 && <span class="pill num">{asked}{questions.data?.next ? "+" : ""}</span>}
          </a>
        ))}
      </nav>
      <div class="side-foot">
        <button type="button" class="quiet small" onClick={() => choose(look === "dark" ? "light" : "dark")}>
          <Icon name={look === "dark" ? "sun" : "sleeping"} />
          {look === "dark" ? "Light" : "Dark"}
        </button>
        <p class="dim small-text">
          <Text value={access?.name ?? ""} /> in <Text value={access?.namespace ?? ""} />
          {key && (
            <button type="button" class="quiet small" onClick={() => logOut()}>
              Log out
            </button>
          )}
        </p>
      </div>
    </header>
  );
}

/** Says that the server is gone, or slow. */
function Connection() {
  const state = useSignal(online);
  const late = useSignal(overdue);
  return (
    <div class="connection" role="status" aria-live="polite">
      {state === "no" ? (
        <p class="banner">
          <Icon name="warn" />
          The server does not answer. The page shows what it last read, and tries again by itself.
        </p>
      ) : (
        late > 0 && (
          <p class="banner">
            <Icon name="waiting" />
            The server has not answered for a while. The page waits for it.
          </p>
        )
      )}
    </div>
  );
}

function Login({ why }: { why: string }) {
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const [error, setError] = useState<Refusal>();
  return (
    <main class="lonely login">
      <Seal />
      <h1>Goldseam</h1>
      <p class="dim" role="status">
        <Text value={why} />
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setError(undefined);
          logIn(key.trim(), keep).then(
            () => {},
            (thrown) => {
              setError(thrown as Refusal);
              session.value = { key: undefined, access: undefined, ended: "Log in with another key." };
            },
          );
        }}
      >
        <Field label="Key" hint="The page keeps it in memory and sends it in a header only.">
          {(id) => (
            <input id={id} type="password" autocomplete="off" spellcheck={false} value={key} onInput={(event) => setKey(event.currentTarget.value)} required />
          )}
        </Field>
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          Keep it in this tab until the tab is closed
        </label>
        {error && <Problem error={error} />}
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
      <p class="dim">
        Without a key: <code>goldseam key create NAME --scope read,operate,signal,start</code>
      </p>
    </main>
  );
}

/** `g` and a letter opens a page, unless the user types into a field. */
function useShortcuts(): void {
  useEffect(() => {
    let waiting = false;
    const targets: Record<string, string[]> = { h: [], r: ["runs"], f: ["failures"], e: ["recoveries"], i: ["inbox"], q: ["queues"], o: ["operations"], s: ["start"], a: ["api"] };
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, dialog, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const path = targets[event.key];
      if (waiting && path) go(path);
      waiting = event.key === "g";
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
