// The one stream of all events that every page shares.

import type { EventDoc } from "../api-types";
import { call, online } from "./api";
import { follow } from "./stream";

export type RunEvent = EventDoc & { run: string };

const listeners = new Set<(event: RunEvent | undefined) => void>();
const changes = new Set<() => void>();
let stop: (() => void) | undefined;
/** When the stream was connected. Data that was read earlier may lack what happened since. */
let connectedAt = 0;
export const isOlderThanStream = (read: number) => read < connectedAt;

function announce(event: RunEvent | undefined): void {
  for (const listener of [...listeners]) listener(event);
  if (!event) changed();
}

function changed(): void {
  for (const listener of [...changes]) listener();
}

function open(): void {
  stop ??= follow("/v1/events?from=now&changes=true", {
    message: ({ name, data }) => (name === "changed" ? changed() : announce(data)),
    connected: () => {
      connectedAt = performance.now();
      announce(undefined);
    },
    // Without a key there is nothing to follow; the next page begins again.
    refused: ({ status }) => (stop = status === 401 || status === 403 ? undefined : waitForChanges()),
  });
}

function close(): void {
  if (listeners.size > 0 || changes.size > 0) return;
  stop?.();
  stop = undefined;
}

/** Calls `listener` for each event of any run, and without an event if events may have been missed. */
export function onEvent(listener: (event: RunEvent | undefined) => void): () => void {
  listeners.add(listener);
  open();
  return () => {
    listeners.delete(listener);
    close();
  };
}

/** Calls `listener` when tasks, locks, nodes or runs may have changed. */
export function onChange(listener: () => void): () => void {
  changes.add(listener);
  open();
  return () => {
    changes.delete(listener);
    close();
  };
}

const WAIT_MS = 50_000;

/** For a store without a stream of all runs: one request that the server holds back until something changes. */
function waitForChanges(): () => void {
  const abort = new AbortController();
  const run = async () => {
    let mark: number | undefined;
    while (!abort.signal.aborted) {
      try {
        const found = await call("GET /v1/changes", mark === undefined ? {} : { after: mark, wait_ms: WAIT_MS }, { abort: abort.signal, isHeld: mark !== undefined });
        if (mark !== undefined && found.mark !== mark) announce(undefined);
        mark = found.mark;
      } catch {
        await new Promise((done) => setTimeout(done, 2_000));
      }
    }
  };
  void run();
  return () => abort.abort();
}

// A page whose requests failed loads again when the server is back.
online.follow((state) => {
  if (state === "yes") announce(undefined);
});
