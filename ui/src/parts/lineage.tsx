// The branches of a run as a graph like git's: a lane for each branch, and a cut in gold.

import type { BranchItem } from "../api-types";
import { useState } from "preact/hooks";
import { lanesOf } from "../lib/rows";
import { count, plural } from "../lib/time";
import { Text } from "./basics";

const LANE = 26;
const ROW = 56;

interface Props {
  branches: BranchItem[];
  left: string;
  right: string;
  choose(side: "left" | "right", branch: string): void;
}

/** Branches that are drawn before all are, and that the button adds. */
const SHOWN = 40;
const MORE = 200;

export function Lineage({ branches: all, left, right, choose }: Props) {
  const [shown, setShown] = useState(SHOWN);
  const hidden = all.length <= shown + 1 ? 0 : all.length - shown;
  const branches = all.slice(hidden);
  const rows = new Map(branches.map((branch, at) => [branch.branch, at]));
  const lanes = lanesOf(branches);
  const width = (Math.max(0, ...lanes.values()) + 1) * LANE + 12;
  const height = branches.length * ROW;
  const x = (branch: string) => 14 + (lanes.get(branch) ?? 0) * LANE;
  return (
    <>
    {hidden > 0 && <p><button type="button" class="small" onClick={() => setShown(shown + MORE)}>Show {count(Math.min(hidden, MORE))} older</button> <span class="dim">{count(hidden)} of {count(all.length)} branches are older than these.</span></p>}
    <div class="lineage">
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${count(branches.length)} ${branches.length === 1 ? "branch" : "branches"}, as a graph`}>
        {branches.map((branch, at) => {
          const own = x(branch.branch);
          const y = at * ROW + ROW / 2;
          const parent = branch.parent ? x(branch.parent) : undefined;
          // The parent may be older than the first row.
          const from = branch.parent ? (rows.has(branch.parent) ? rows.get(branch.parent)! * ROW + ROW / 2 : 0) : y;
          return (
            <g key={branch.branch}>
              {parent !== undefined && <path class="cut" d={`M${parent} ${from} L${parent} ${y - ROW / 2} C ${parent} ${y - 8}, ${own} ${y - ROW / 2}, ${own} ${y}`} />}
              <line class={branch.active ? "lane active" : "lane"} x1={own} y1={y} x2={own} y2={branch.active ? height : y + ROW / 3} />
              <circle class={branch.active ? "dot active" : "dot"} cx={own} cy={y} r={branch.active ? 7 : 5} />
            </g>
          );
        })}
      </svg>
      <ol class="lineage-rows">
        {branches.map((branch) => (
          <li key={branch.branch} style={{ height: `${ROW}px` }}>
            <strong class="mono">{branch.branch}</strong> {branch.active && <span class="pill">active</span>}{" "}
            <span class="dim">
              {branch.parent ? <>from {branch.parent} after #{branch.cutoff}</> : all[0] === branch ? "begins the run" : "starts over"} · {plural(branch.events, "event")}
            </span>
            <p class="ellipsis"><Text value={branch.why} /></p>
            <span class="side-picks">
              {(["left", "right"] as const).map((side) => (
                <label key={side} class="check">
                  <input type="radio" name={`side-${side}`} checked={(side === "left" ? left : right) === branch.branch} onChange={() => choose(side, branch.branch)} />
                  {side}
                </label>
              ))}
            </span>
          </li>
        ))}
      </ol>
    </div>
    </>
  );
}
