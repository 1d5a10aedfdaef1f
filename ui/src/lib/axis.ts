// The time axis of a run: long idle times are collapsed.

import { span } from "./time";

export interface Segment {
  from: number;
  to: number;
  /** Where it is drawn, from 0 to 1. */
  left: number;
  right: number;
  isIdle: boolean;
  /** Whether work that takes almost all of the time is drawn shorter than it is. */
  isShort: boolean;
  /** Whether there is room for the length of a collapsed time. */
  hasLabel: boolean;
}

export interface Axis {
  segments: Segment[];
  /** The place of a time, from 0 to 1. */
  x(at: number): number;
  /** Times to label. */
  ticks: Array<{ label: string; x: number }>;
}

/** Share of the width that a collapsed idle time takes. */
const IDLE_SHARE = 0.07;
const TICKS = 6;
/** Least distance of two labels. */
const GAP = Math.max(0.09, 90 / innerWidth);

interface Piece {
  from: number;
  to: number;
  isIdle: boolean;
  /** Width per millisecond, in proportion to that of other pieces. */
  weight: number;
}

/** A stretch without a change is drawn shorter if it takes more than this share of the time. */
const LONG_SHARE = 0.75;
/** The share of the width that it then gets. */
const SHORT_SHARE = 0.4;

/** Splits off the one stretch of work that would leave no room for everything else. */
function shorten(pieces: Piece[], { bounds, longest }: Busy, end: number): void {
  if (bounds < 6) return;
  const [a, last] = longest;
  const b = Math.min(last, end);
  const real = pieces.reduce((sum, piece) => sum + (piece.isIdle ? 0 : piece.to - piece.from), 0);
  const length = b - a;
  const place = pieces.findIndex((piece) => !piece.isIdle && piece.from <= a && b <= piece.to);
  if (length < real * LONG_SHARE || length < 2_000 || place < 0) return;
  const { from, to } = pieces[place]!;
  const weight = ((SHORT_SHARE / (1 - SHORT_SHARE)) * Math.max(1, real - length)) / length;
  const parts = [{ from, to: a, isIdle: false, weight: 1 }, { from: a, to: b, isIdle: false, weight: Math.min(1, weight) }, { from: b, to, isIdle: false, weight: 1 }];
  pieces.splice(place, 1, ...parts.filter((part) => part.to > part.from));
}

/** The spans in which something happened. */
export interface Busy {
  /** Without overlaps, in order. */
  merged: Array<[number, number]>;
  /** Number of different begins and ends. */
  bounds: number;
  /** The longest time without a begin or an end. */
  longest: [number, number];
}

/** Orders the spans. An open one ends at infinity. */
export function busyOf(spans: Array<[number, number]>): Busy {
  spans.sort((a, b) => a[0] - b[0]);
  const merged: Array<[number, number]> = [];
  const times = new Float64Array(spans.length * 2);
  let n = 0;
  for (const [a, b] of spans) {
    const stop = Math.max(a, b);
    const last = merged[merged.length - 1];
    if (last && a <= last[1]) last[1] = Math.max(last[1], stop);
    else merged.push([a, stop]);
    times[n++] = a;
    times[n++] = stop;
  }
  times.sort();
  const busy: Busy = { merged, bounds: n ? 1 : 0, longest: [0, 0] };
  for (let at = 1; at < n; at++) {
    const gap = times[at]! - times[at - 1]!;
    if (gap > 0) busy.bounds++;
    if (gap > busy.longest[1] - busy.longest[0]) busy.longest = [times[at - 1]!, times[at]!];
  }
  return busy;
}

/** Builds the axis from the spans in which something happened. */
export function axis(found: Busy, from: number, to: number): Axis {
  const end = Math.max(to, from + 1);
  const merged = found.merged.map(([a, b]): [number, number] => [Math.min(end, Math.max(from, a)), Math.min(end, Math.max(from, b))]);
  // Work under way does not count: what is collapsed must not change from second to second.
  const closed = found.merged.filter(([, b]) => Number.isFinite(b));
  const busy = closed.reduce((sum, [a, b]) => sum + (b - a), 0);
  const known = Math.min(end, Math.max(from, ...found.merged.slice(-1).map(([a, b]) => (Number.isFinite(b) ? b : a)))) - from;
  // A gap is collapsed if it is long compared with everything that happened.
  const limit = Math.max(2_000, busy * 0.5, known * 0.12);
  const pieces: Piece[] = [];
  let at = from;
  const push = (until: number, isIdle: boolean) => {
    const last = pieces[pieces.length - 1];
    if (last && last.isIdle === isIdle) last.to = until;
    else if (until > at || pieces.length === 0) pieces.push({ from: at, to: until, isIdle, weight: 1 });
    at = until;
  };
  for (const [a, b] of merged) {
    if (a > at) push(a, a - at > limit);
    if (b > at) push(b, false);
  }
  if (end > at) push(end, end - at > limit);
  shorten(pieces, found, end);
  const idle = pieces.filter((piece) => piece.isIdle).length;
  const real = pieces.reduce((sum, piece) => sum + (piece.isIdle ? 0 : (piece.to - piece.from) * piece.weight), 0);
  const rest = Math.max(0.2, 1 - idle * IDLE_SHARE);
  const idleWidth = idle ? (1 - (real > 0 ? rest : 0)) / idle : 0;
  let left = 0;
  let labelled = -1;
  const segments = pieces.map((piece) => {
    const width = piece.isIdle ? idleWidth : real > 0 ? (((piece.to - piece.from) * piece.weight) / real) * (idle ? rest : 1) : 1;
    const centre = left + width / 2;
    const isShort = piece.weight < 1;
    const hasLabel = (piece.isIdle || isShort) && centre - labelled > GAP;
    if (hasLabel) labelled = centre;
    const segment = { from: piece.from, to: piece.to, isIdle: piece.isIdle, isShort, left, right: left + width, hasLabel };
    left += width;
    return segment;
  });
  const x = (time: number): number => {
    if (time <= from) return 0;
    const segment = segments.find((one) => time <= one.to) ?? segments[segments.length - 1];
    if (!segment) return 1;
    const length = segment.to - segment.from;
    const share = length ? Math.min(1, Math.max(0, (time - segment.from) / length)) : 1;
    return segment.left + share * (segment.right - segment.left);
  };
  return { segments, x, ticks: ticksOf(segments) };
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

/** The time since the start, as exactly as the step of the axis needs. */
function label(ms: number, step: number): string {
  if (ms === 0) return "0";
  if (step >= 60_000) return `+${span(ms)}`;
  const s = ms / 1000;
  const digits = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  if (ms < 1000) return `+${Math.round(ms)} ms`;
  const min = Math.floor(s / 60);
  return min ? `+${min}:${(s % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0")}` : `+${s.toFixed(digits)} s`;
}

function ticksOf(segments: Segment[]): Axis["ticks"] {
  const begin = segments[0]?.from ?? 0;
  const ticks: Axis["ticks"] = [];
  // Collapsed times have a label of their own.
  const centres = segments.filter((one) => one.hasLabel).map((one) => (one.left + one.right) / 2);
  for (const segment of segments) {
    if (segment.isIdle) continue;
    const width = segment.right - segment.left;
    const wanted = Math.max(1, Math.round(TICKS * width));
    const length = segment.to - segment.from;
    const step = STEPS.find((one) => length / one <= wanted) ?? STEPS[STEPS.length - 1]!;
    for (let time = Math.ceil((segment.from - begin) / step) * step; time <= segment.to - begin; time += step) {
      const x = segment.left + (length ? ((time + begin - segment.from) / length) * width : 0);
      const last = ticks[ticks.length - 1];
      const isFree = centres.every((centre) => Math.abs(centre - x) > GAP);
      if (isFree && (!last || x - last.x > GAP)) ticks.push({ label: label(time, step), x });
    }
  }
  return ticks;
}

/** Marks that are drawn as one. */
export interface Marks {
  /** Numbers of the first and the last of them. */
  first: number;
  last: number;
  /** Where they are drawn, from 0 to 1. */
  x: number;
}

/** Least distance of two marks. */
const MARK_GAP = 0.012;

/** Draws marks as one if they are too close together to distinguish. The places are in ascending order. */
export function apart(places: number[]): Marks[] {
  const groups: Marks[] = [];
  let begin = -1;
  places.forEach((x, at) => {
    if (x - begin >= MARK_GAP || groups.length === 0) {
      begin = x;
      groups.push({ first: at, last: at, x });
    } else {
      const group = groups[groups.length - 1]!;
      group.last = at;
      group.x = x;
    }
  });
  return groups;
}
