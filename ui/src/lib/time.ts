// Times and spans, in the words of the command line.

import { useEffect, useState } from "preact/hooks";

/** A span such as 41 ms, 1.2 s, 3 min, 2 h 5 min, 4 d. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 && h < 10 ? `${h} h ${m % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d`;
}

/** An age in one unit: 41 ms, 12 s, 3 min, 2 h, 4 d. */
export function age(ms: number): string {
  if (ms < 1000) return span(ms);
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

const NEVER = 8.64e15;

export function iso(ms: number): string {
  return Math.abs(ms) > NEVER ? "never" : new Date(ms).toISOString().replace(/\.000Z$/, "Z");
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A local time, with the date if it is not today. */
export function local(ms: number): string {
  if (Math.abs(ms) > NEVER) return "never";
  const at = new Date(ms);
  const clock = CLOCK.format(at);
  return at.toDateString() === new Date().toDateString() ? clock : `${DAY.format(at)} ${clock}`;
}

/** Milliseconds that the clock of the server is ahead of the browser's. */
let ahead = 0;
/** A response tells the time in whole seconds, and took a moment: a smaller difference is ignored. */
const CLOSE_MS = 2_500;

/** Notes the time of a response, so that ages are right even if the clock of the browser is wrong. */
export function noteServerTime(date: string | null): void {
  const difference = Date.parse(date ?? "") - Date.now();
  if (Number.isFinite(difference)) ahead = Math.abs(difference) < CLOSE_MS ? 0 : difference;
}

/** The present time of the server. */
export const serverNow = () => Date.now() + ahead;

/** One clock for each interval, which all components share. */
const clocks = new Map<number, { followers: Set<(now: number) => void>; timer: ReturnType<typeof setInterval> }>();

/** The present time, again every `every` milliseconds. */
export function useNow(every = 1000): number {
  const [now, set] = useState(serverNow);
  useEffect(() => {
    let clock = clocks.get(every);
    if (!clock) {
      const followers = new Set<(now: number) => void>();
      const tick = () => document.hidden || followers.forEach((follower) => follower(serverNow()));
      clock = { followers, timer: setInterval(tick, every) };
      clocks.set(every, clock);
    }
    const { followers, timer } = clock;
    followers.add(set);
    return () => {
      followers.delete(set);
      if (followers.size === 0) {
        clearInterval(timer);
        clocks.delete(every);
      }
    };
  }, [every]);
  return now;
}

const COUNT = new Intl.NumberFormat("en-US");
export function count(n: number): string {
  return COUNT.format(n);
}

export function plural(n: number, word: string): string {
  return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} kB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}
