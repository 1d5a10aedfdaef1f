// Followers of server-sent events, with the key in a header and Last-Event-ID on every new connection.

import { expectSoon, headers, noteRefusal, online, problemOf, Refusal, session } from "./api";
import { PAYLOADS, parse } from "./json";

export interface Message {
  name: string;
  id: string | undefined;
  data: any;
}

export interface Follower {
  /** Called for each message. */
  message(message: Message): void;
  /** Called when a connection is made: something may have been missed before. */
  connected?(): void;
  /** Called if the server refuses the stream. It is not tried again. */
  refused?(refusal: Refusal): void;
}

/** Longest pause before the next connection. */
const PAUSE_MAX_MS = 2_000;
/** Longest silence of a stream. The server sends a sign of life every ten seconds. */
const SILENCE_MAX_MS = 13_000;

/** Follows a stream until the returned function is called. Rests while the page is hidden. */
export function follow(url: string, follower: Follower): () => void {
  let last: string | undefined;
  let connections = 0;
  let key = session.value.key;
  let ended = false;
  let abort = new AbortController();
  let wake: (() => void) | undefined;

  const pause = (ms: number) =>
    new Promise<void>((done) => {
      const timer = setTimeout(done, ms);
      wake = () => (clearTimeout(timer), done());
    });
  const visible = () =>
    new Promise<void>((done) => {
      if (!document.hidden) return done();
      const look = () => {
        if (document.hidden && !ended) return;
        document.removeEventListener("visibilitychange", look);
        done();
      };
      document.addEventListener("visibilitychange", look);
      wake = look;
    });
  const rest = () => document.hidden && abort.abort();
  document.addEventListener("visibilitychange", rest);

  const take = (block: string) => {
    let name = "message";
    let id: string | undefined;
    const data: string[] = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("data: ")) data.push(line.slice(6));
    }
    if (data.length === 0) return;
    const read = parse(data.join("\n"), PAYLOADS);
    if (id !== undefined) last = id;
    if (name === "problem") noteRefusal(new Refusal(read), key);
    else follower.message({ name, id, data: read });
  };

  /** Reads one connection to its end. Returns whether the stream is complete. */
  const connect = async (): Promise<boolean> => {
    abort = new AbortController();
    key = session.value.key;
    let watchdog = setTimeout(() => abort.abort(), SILENCE_MAX_MS);
    try {
      const sent: Record<string, string> = { ...headers(), accept: "text/event-stream" };
      if (last !== undefined) sent["last-event-id"] = last;
      const answered = expectSoon();
      const response = await fetch(url, { headers: sent, cache: "no-store", signal: abort.signal }).finally(answered);
      if (response.status === 204) return true;
      if (!response.ok || !response.body) {
        const refusal = new Refusal(problemOf(await response.text(), response.status));
        noteRefusal(refusal, key);
        if (response.status < 500 && response.status !== 429) {
          follower.refused?.(refusal);
          return true;
        }
        return false;
      }
      online.value = "yes";
      connections++;
      follower.connected?.();
      const reader = response.body.pipeThrough(new TextDecoderStream() as any).getReader() as ReadableStreamDefaultReader<string>;
      let buffer = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return false;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE_MAX_MS);
        buffer += value;
        const blocks = buffer.split("\n\n");
        buffer = blocks.pop() ?? "";
        blocks.forEach(take);
      }
    } finally {
      clearTimeout(watchdog);
    }
  };

  const run = async () => {
    let failures = 0;
    while (!ended) {
      await visible();
      if (ended) return;
      const before = connections;
      try {
        if (await connect()) return;
        failures = connections > before ? 0 : failures + 1;
      } catch {
        if (ended) return;
        if (!document.hidden) online.value = "no";
        failures = connections > before ? 0 : failures + 1;
      }
      if (!document.hidden && !ended) await pause(Math.min(PAUSE_MAX_MS, 200 * 2 ** failures));
    }
  };
  void run();

  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", rest);
    abort.abort();
    wake?.();
  };
}
