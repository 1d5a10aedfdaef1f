// The one stream of all events that every page shares.

import { useEffect } from "preact/hooks";
import type { EventDoc } from "../api-types";
import { online } from "./api";
import { signal } from "./signal";
import { follow } from "./stream";

export type RunEvent = EventDoc & { run: string };

const listeners = new Set<(event: RunEvent | undefined) => void>();
let stop: (() => void) | undefined;
/** Why there is no feed, if the store has none. */
export const noFeed = signal<string | undefined>(undefined);

function announce(event: RunEvent | undefined): void {
  for (const listener of [...listeners]) listener(event);
}

/** Calls `listener` for each event of any run, and without an event if events may have been missed. */
export function onEvent(listener: (event: RunEvent | undefined) => void): () => void {
  listeners.add(listener);
  stop ??= follow("/v1/events?from=now", {
    message: ({ data }) => announce(data),
    again: () => announce(undefined),
    refused: (refusal) => (noFeed.value = refusal.message),
  });
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      stop?.();
      stop = undefined;
    }
  };
}

// A page whose requests failed loads again when the server is back.
online.follow((state) => {
  if (state === "yes") announce(undefined);
});

export function useEvents(listener: (event: RunEvent | undefined) => void): void {
  useEffect(() => onEvent(listener), []);
}
