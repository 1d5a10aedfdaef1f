// Calls of the HTTP API. The key travels in a header only.

import type { CurrentKey, Problem as ProblemDoc, Routes, Scope } from "../api-types";
import { PAYLOADS, parse, write } from "./json";
import { signal } from "./signal";
import { noteServerTime } from "./time";

/** A refusal of the server, or a server that does not answer. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly hint: string | undefined;
  constructor(problem: Partial<ProblemDoc>) {
    super(problem.detail ?? problem.title ?? "the request failed");
    this.status = problem.status ?? 0;
    this.code = problem.code ?? undefined;
    this.hint = problem.hint ?? undefined;
  }
  /** Whether the server did not answer at all. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

const KEPT = "goldseam.key";

/** The credential of this page, and what it permits. */
export interface Session {
  /** The credential; none if the server needs none. */
  key: string | undefined;
  /** What it may do; undefined until the server has answered. */
  access: CurrentKey | undefined;
  /** Why a key is needed now. */
  ended: string | undefined;
}

export const session = signal<Session>({ key: sessionStorage.getItem(KEPT) ?? undefined, access: undefined, ended: undefined });
/** Whether the server answers. */
export const online = signal<"unknown" | "yes" | "no">("unknown");
/** Number of requests that have waited for a response for longer than `SLOW_MS`. */
export const overdue = signal(0);
const SLOW_MS = 1_500;

export function may(scope: Scope): boolean {
  return session.value.access?.scopes.includes(scope) ?? false;
}

/** Asks the server what the present key may do. */
export async function identify(): Promise<void> {
  const access = await call("GET /v1/key");
  session.value = { ...session.value, access, ended: undefined };
}

export async function logIn(key: string, keep: boolean): Promise<void> {
  // `ended` stays until the key is accepted, and with it the form.
  session.value = { ...session.value, key, access: undefined };
  if (keep) sessionStorage.setItem(KEPT, key);
  else sessionStorage.removeItem(KEPT);
  await identify();
}

export function logOut(why = "You have logged out."): void {
  sessionStorage.removeItem(KEPT);
  session.value = { key: undefined, access: undefined, ended: why };
}

export function headers(key = session.value.key): Record<string, string> {
  return key ? { authorization: `Bearer ${key}` } : {};
}

/** Notes a refusal that concerns the whole page. `key` is the one that the request was sent with. */
export function noteRefusal(refusal: Refusal, key: string | undefined): void {
  if (refusal.isOffline) online.value = "no";
  if (refusal.status === 401 && key === session.value.key) {
    const had = session.value.access !== undefined;
    sessionStorage.removeItem(KEPT);
    session.value = {
      key: undefined,
      access: undefined,
      ended: had ? "This key has ended: it was revoked or has expired." : refusal.message,
    };
  }
}

type Path = keyof Routes;
type Params<R extends Path> = Partial<Routes[R]["path"]> & Partial<Routes[R]["query"]>;

/** Returns the address of a route. */
export function address(route: Path, params: Record<string, unknown> = {}): string {
  const rest = new Map(Object.entries(params).filter(([, value]) => value !== undefined && value !== ""));
  const path = route.slice(route.indexOf(" ") + 1).replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(rest.get(name) ?? "");
    rest.delete(name);
    return encodeURIComponent(value);
  });
  const query = [...rest].map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return query ? `${path}?${query}` : path;
}

export interface CallOptions {
  body?: unknown;
  abort?: AbortSignal;
  /** Used instead of the key of the session. */
  credential?: string;
  /** The server holds the response back until something changes. */
  isHeld?: boolean;
}

/** Counts a request as overdue if it takes long. The returned function ends that. */
export function expectSoon(): () => void {
  let isCounted = false;
  const timer = setTimeout(() => ((isCounted = true), overdue.value++), SLOW_MS);
  return () => {
    clearTimeout(timer);
    if (isCounted) overdue.value--;
    isCounted = false;
  };
}

/** Calls a route, and returns its document. */
export async function call<R extends Path>(
  route: R,
  params?: Params<R>,
  options: CallOptions = {},
): Promise<Routes[R]["reply"]> {
  const text = await fetchText(route, address(route, params as Record<string, unknown>), options);
  return parse(text, PAYLOADS);
}

/** Calls a GET route, and returns the text of its document. */
export async function fetchText(route: string, url: string, options: CallOptions = {}): Promise<string> {
  const method = route.slice(0, route.indexOf(" "));
  const key = options.credential ?? session.value.key;
  const sent: RequestInit = { method, headers: headers(key), cache: "no-store", redirect: "error" };
  if (options.abort) sent.signal = options.abort;
  if (method === "POST") {
    sent.headers = { ...headers(key), "idempotency-key": crypto.randomUUID() };
    if (options.body !== undefined) {
      sent.body = write(options.body);
      sent.headers = { ...sent.headers, "content-type": "application/json" };
    }
  }
  let response: Response;
  let text: string;
  const answered = options.isHeld ? undefined : expectSoon();
  try {
    response = await fetch(url, sent);
    noteServerTime(response.headers.get("date"));
    text = await response.text();
  } catch (error) {
    if (options.abort?.aborted) throw error;
    const refusal = new Refusal({ status: 0, detail: "the server does not answer", hint: "goldseam serve starts it" });
    noteRefusal(refusal, key);
    throw refusal;
  } finally {
    answered?.();
  }
  online.value = "yes";
  if (!response.ok) {
    const refusal = new Refusal(problemOf(text, response.status));
    noteRefusal(refusal, key);
    throw refusal;
  }
  return text;
}

export function problemOf(text: string, status: number): Partial<ProblemDoc> {
  try {
    return { ...parse(text), status };
  } catch {
    return { status, detail: `the server answered with status ${status}` };
  }
}
