// The rows of a timeline: the steps of one branch, and what other branches did before they were cut off.

import type { BranchItem, Detail, Seam, Step, StepSpan } from "../api-types";

/** A span, and how its work was lost, in words. */
export interface DrawnSpan extends Omit<StepSpan, "lost"> {
  lost?: string;
}

export interface Row {
  step: Step;
  spans: DrawnSpan[];
  /** How the whole step was lost. */
  lost: string | undefined;
}

/** When a branch was left; undefined while it is active. */
export function leftAt(branch: string, seams: Seam[]): number | undefined {
  return seams.find((seam) => seam.cut?.from === branch)?.at;
}

/** The spans of a step. Those that were lost with their worker say so. */
const spansOf = (step: Step): DrawnSpan[] => (step.spans ?? []).map(({ lost, ...one }) => (lost ? { ...one, lost: "lost with its worker" } : one));

/** Merges the steps of `detail` with those of the branches that were cut off. */
export function rowsOf(detail: Detail, others: ReadonlyMap<string, Detail>): Row[] {
  const rows: Row[] = detail.steps.map((step) => ({ step, spans: spansOf(step), lost: undefined }));
  if (others.size === 0) return rows;
  const known = new Map(rows.map((row) => [row.step.path, row]));
  const has = (row: Row, one: DrawnSpan) => row.spans.some((other) => other.from === one.from && other.kind === one.kind);
  for (const [branch, other] of others) {
    const until = leftAt(branch, detail.seams);
    const cut = (one: DrawnSpan): DrawnSpan => ({ ...one, to: one.to ?? until ?? one.from, lost: `cut off with ${branch}` });
    for (const step of other.steps) {
      const row = known.get(step.path);
      if (row) row.spans.push(...spansOf(step).filter((one) => !has(row, one)).map(cut));
      else {
        const made: Row = { step, spans: spansOf(step).map(cut), lost: `cut off with ${branch}` };
        known.set(step.path, made);
        rows.push(made);
      }
    }
  }
  const begin = (row: Row) => Math.min(row.step.began, ...row.spans.map((one) => one.from));
  return rows.map((row, at) => ({ row, at, from: begin(row) })).sort((a, b) => a.from - b.from || a.at - b.at).map(({ row }) => row);
}

/** The lane of each branch in the graph. A lane is free again below the last child of its branch. */
export function lanesOf(branches: BranchItem[]): Map<string, number> {
  const ends = new Map<string, number>();
  branches.forEach((branch, at) => {
    ends.set(branch.branch, branch.active ? Infinity : Math.max(at, ends.get(branch.branch) ?? 0));
    if (branch.parent) ends.set(branch.parent, Math.max(at, ends.get(branch.parent) ?? 0));
  });
  const lanes = new Map<string, number>();
  const taken: number[] = [];
  branches.forEach((branch, at) => {
    const free = taken.findIndex((end) => end < at);
    const lane = free < 0 ? taken.length : free;
    taken[lane] = ends.get(branch.branch) ?? at;
    lanes.set(branch.branch, lane);
  });
  return lanes;
}
