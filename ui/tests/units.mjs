// Parts of the page that need no browser: exact JSON, the time axis, rows of a timeline, conditions of filters.
import { rolldown } from "rolldown";
import { fileURLToPath } from "node:url";
import { equal, ok } from "./checks.mjs";

/** Loads a source file of the page. */
async function load(path) {
  globalThis.innerWidth ??= 1280;
  const bundle = await rolldown({ input: fileURLToPath(new URL(`../src/${path}`, import.meta.url)), logLevel: "silent" });
  const { output } = await bundle.generate({ format: "esm" });
  return import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString("base64")}`);
}

/** A generator of the same numbers on every run. */
function dice(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

const LEAVES = ["null", "true", "false", "0", "-0", "1.10", "1E+30", "9007199254740993", "-12345678901234567890.5e-3", '""', '"a\\"b\\\\"', '"\u202e<b>"', '"é\u{1f600}"', '"{[,:]}"'];

/** JSON text with blanks in odd places. */
function anyJson(roll, depth) {
  const blank = () => ["", " ", "\n\t"][roll(3)];
  const kind = depth > 4 ? 0 : roll(4);
  if (kind < 2) return blank() + LEAVES[roll(LEAVES.length)] + blank();
  const parts = Array.from({ length: roll(4) }, () => anyJson(roll, depth + 1));
  if (kind === 2) return `${blank()}[${parts.join(",") || blank()}]${blank()}`;
  return `${blank()}{${parts.map((part, n) => `${blank()}"k${n}"${blank()}:${part}`).join(",") || blank()}}${blank()}`;
}

/** Removes blanks outside strings. */
const tight = (text) => text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, string) => string ?? "");

export const units = {
  async json_keeps_every_number_and_string_as_it_is_written() {
    const { parse, pretty, write, Raw, flaw } = await load("lib/json.ts");
    const roll = dice(7);
    for (let n = 0; n < 3_000; n++) {
      const text = anyJson(roll, 0);
      equal(tight(write(parse(text))), tight(text), "written again");
      equal(tight(pretty(text)), tight(text), "indented");
      JSON.parse(pretty(text));
      const held = parse(`{"input":${text},"other":1}`, new Set(["input"])).input;
      equal(held === null ? "null" : held.text, text.trim(), "a payload keeps its text");
      equal(write({ again: new Raw(text.trim()) }), `{"again":${text.trim()}}`, "a payload is sent as it is");
    }
    for (const wrong of ["", "{", "[1,]", '{"a"}', "01a", "nul", '"a', "[1 2]", "{} {}", "1.", "-", '"a\\"']) {
      let refused = false;
      try {
        parse(wrong);
      } catch {
        refused = true;
      }
      ok(refused && flaw(wrong), `${wrong} is refused`);
    }
    equal(parse('{"__proto__":{"a":1}}').a, undefined, "no prototype comes from a payload");
  },

  async the_axis_is_monotone_and_collapses_long_idle_times() {
    const { axis, busyOf } = await load("lib/axis.ts");
    const roll = dice(11);
    for (let n = 0; n < 500; n++) {
      const from = 1_000_000;
      let at = from;
      const spans = Array.from({ length: 1 + roll(30) }, () => {
        at += roll(roll(2) ? 50 : 5_000_000);
        const begin = at;
        at += roll(2_000);
        return [begin, at];
      });
      const { x, segments, ticks } = axis(busyOf([...spans]), from, at + roll(100_000));
      let last = 0;
      for (const [begin, end] of spans) {
        for (const time of [begin, end]) {
          ok(x(time) >= last - 1e-9 && x(time) <= 1 + 1e-9, `the place of ${time} is ${x(time)} after ${last}`);
          last = x(time);
        }
      }
      ok(Math.abs(segments.at(-1).right - 1) < 1e-6, "the axis fills its width");
      ok(ticks.every((tick) => tick.x >= 0 && tick.x <= 1 + 1e-9), "labels are on the axis");
    }
    const { segments } = axis(busyOf([[0, 100], [7_200_000, 7_200_100]]), 0, 7_200_100);
    equal(segments.map((one) => one.isIdle), [false, true, false], "two hours are collapsed");
    ok(segments[1].right - segments[1].left < 0.2, "a collapsed time is narrow");
    // Work under way for an hour leaves room for what happened in the seconds before it.
    const long = axis(busyOf([[0, 900], [1_000, 1_500], [1_600, 2_000], [2_100, Infinity]]), 0, 3_600_000);
    ok(long.x(2_000) > 0.4 && long.segments.some((one) => one.isShort), `the first steps end at ${long.x(2_000)}`);
  },

  async attempts_of_left_branches_are_kept_as_cut_off() {
    const { rowsOf } = await load("lib/rows.ts");
    const step = (path, began, spans) => ({ path, began, attempts: 1, kind: "step", state: "done", spans });
    const work = (from, to) => ({ kind: "work", from, to, attempt: 1 });
    const detail = { steps: [step("a", 1, [work(1, 2)]), step("b", 30, [work(30, 40)])], seams: [{ at: 20, kind: "recovered", cut: { from: "b1", to: "b2", after: 4 } }] };
    const left = { steps: [step("a", 1, [work(1, 2)]), step("b", 5, [work(5, null)]), step("only", 6, [work(6, 7)])], seams: [] };
    const rows = rowsOf(detail, new Map([["b1", left]]));
    equal(rows.map((row) => row.step.path), ["a", "b", "only"], "rows by their begin");
    equal(rows[0].spans.length, 1, "a shared attempt is drawn once");
    equal(rows[1].spans.map((one) => [one.from, one.to, one.lost]), [[30, 40, undefined], [5, 20, "cut off with b1"]], "an open attempt ends at the cut");
    // A worker that died: the server reports the attempt as lost.
    const dead = { steps: [step("c", 5, [{ ...work(5, 20), lost: true }, work(30, 40)])], seams: [{ at: 20, kind: "recovered" }] };
    equal(rowsOf(dead, new Map())[0].spans.map((one) => [one.from, one.to, one.lost]), [[5, 20, "lost with its worker"], [30, 40, undefined]], "the lost attempt");
    equal(rows[2].lost, "cut off with b1", "a step that only the left branch had");
  },

  async seams_that_are_close_together_are_one_mark() {
    globalThis.innerWidth ??= 1280;
    const { apart } = await load("lib/axis.ts");
    equal(apart([]), [], "none");
    equal(apart([0.1, 0.5]), [{ first: 0, last: 0, x: 0.1 }, { first: 1, last: 1, x: 0.5 }], "far apart");
    const many = apart(Array.from({ length: 2000 }, (_, at) => at / 2000));
    ok(many.length < 100 && many.at(-1).last === 1999, "two thousand are at most a hundred marks, and none is lost");
  },

  async lanes_of_branches_are_used_again() {
    const { lanesOf } = await load("lib/rows.ts");
    const branch = (name, parent, active = false) => ({ branch: name, parent, active });
    const chain = [branch("b1"), ...Array.from({ length: 50 }, (_, at) => branch(`b${at + 2}`, `b${at + 1}`, at === 49))];
    ok(Math.max(...lanesOf(chain).values()) <= 1, "a chain needs two lanes");
    const star = [branch("b1"), branch("b2", "b1"), branch("b3", "b1", true)];
    equal([...lanesOf(star).values()], [0, 1, 1], "a lane is free below its branch");
    equal([...lanesOf([branch("b1", undefined, true), branch("b2", "b1")]).values()], [0, 1], "the active branch keeps its lane");
  },
};
