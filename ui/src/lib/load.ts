// Data of a page: loaded, and loaded again after changes.

import { useEffect, useRef, useState } from "preact/hooks";
import { online, Refusal } from "./api";
import { isOlderThanStream, onChange, onEvent, type RunEvent } from "./feed";

export interface Loaded<T> {
  data: T | undefined;
  error: Refusal | undefined;
  /** Loads again. */
  again(): void;
  /** Milliseconds that the last load took. */
  cost(): number;
}

interface Options {
  /** Whether an event of the feed changes the data; by default none does. */
  live?: (event: RunEvent) => boolean;
  /** Whether a change of tasks, locks or nodes changes the data. */
  changes?: boolean;
  /** Keys of the same group show the data of each other until their own is loaded. */
  group?: string;
}

/** Shortest time between two loads that events cause. */
const PAUSE_MS = 400;

/** Loads data when `key` changes, and again after matching events, each time after a pause that grows with the cost. */
export function useLoad<T>(key: string | undefined, load: (abort: AbortSignal) => Promise<T>, options: Options = {}): Loaded<T> {
  const { group } = options;
  const [state, set] = useState<{ key: string | undefined; group?: string | undefined; data?: T; error?: Refusal }>({ key });
  const current = useRef({ load, again: () => {}, cost: 0 });
  current.current.load = load;

  useEffect(() => {
    if (key === undefined) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isLoading = false;
    let isStale = false;
    let cost = 0;
    let began = 0;
    let hasFailed = false;
    const run = async () => {
      timer = undefined;
      isLoading = true;
      isStale = false;
      began = performance.now();
      hasFailed = false;
      try {
        const data = await current.current.load(abort.signal);
        if (!abort.signal.aborted) set({ key, group, data });
      } catch (error) {
        if (abort.signal.aborted) return;
        hasFailed = true;
        const refusal = error instanceof Refusal ? error : new Refusal({ detail: String(error), status: 1 });
        // Data that was read before stays on the page while the server is away.
        set((old) => (refusal.isOffline && old.key === key && old.data ? { ...old, error: refusal } : { key, error: refusal }));
      }
      isLoading = false;
      cost = performance.now() - began;
      current.current.cost = cost;
      if (isStale) soon();
    };
    const soon = () => {
      if (isLoading) isStale = true;
      else timer ??= setTimeout(run, Math.max(PAUSE_MS, 5 * cost));
    };
    const now = () => {
      clearTimeout(timer);
      timer = undefined;
      if (isLoading) isStale = true;
      else void run();
    };
    current.current.again = now;
    void run();
    const stops = [online.follow((state) => state === "yes" && soon())];
    const { live } = options;
    if (live) stops.push(onEvent((event) => (event === undefined ? isOlderThanStream(began) || hasFailed : live(event)) && soon()));
    if (options.changes) stops.push(onChange(soon));
    return () => {
      abort.abort();
      clearTimeout(timer);
      stops.forEach((stop) => stop());
    };
  }, [key]);

  const fresh = state.key === key;
  const isKept = key !== undefined && group !== undefined && state.group === group;
  return {
    data: fresh || isKept ? state.data : undefined,
    error: fresh ? state.error : undefined,
    again: () => current.current.again(),
    cost: () => current.current.cost,
  };
}
