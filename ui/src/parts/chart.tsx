// Counts per minute as lines. The plot library is loaded when the first chart appears.

import { useEffect, useRef, useState } from "preact/hooks";
import { useSignal } from "../lib/signal";
import { theme } from "../lib/theme";
import { count } from "../lib/time";

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export interface Series {
  label: string;
  values: number[];
  /** The name of a colour token. */
  color: string;
  dash?: number[];
}

const HEIGHT = 200;

interface Props {
  /** Times in milliseconds. */
  times: number[];
  series: Series[];
  label: string;
}

export function Chart({ times, series, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<any>(undefined);
  const look = useSignal(theme);
  // A count belongs to the whole interval, also the last one.
  const step = (times[1] ?? 0) - (times[0] ?? 0);
  const ends = times.length ? [times[times.length - 1]! + step] : [];
  const data = [[...times, ...ends].map((at) => at / 1000), ...series.map((one) => [...one.values, ...one.values.slice(-1)])];
  useEffect(() => {
    let gone = false;
    let watcher: ResizeObserver | undefined;
    void import("uplot").then(({ default: Plot }) => {
      const element = box.current;
      if (gone || !element) return;
      const token = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      const axis = { stroke: token("ink-dim"), grid: { stroke: token("line"), width: 1 }, ticks: { show: false }, font: "12px Inter, system-ui, sans-serif" };
      plot.current = new Plot(
        {
          width: Math.max(200, element.clientWidth),
          height: HEIGHT,
          legend: { show: false },
          cursor: { y: false, points: { show: false }, drag: { setScale: false } },
          hooks: { setCursor: [(it: any) => setAt(it.cursor.idx ?? undefined)] },
          padding: [8, 18, 0, 0],
          axes: [{ ...axis, size: 26, space: 70, values: (_: unknown, all: number[]) => all.map((at) => CLOCK.format(at * 1000)) }, { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }],
          scales: { y: { range: (_: unknown, __: number, max: number) => [0, Math.max(4, max * 1.1)] } },
          series: [
            {},
            ...series.map((one) => ({
              label: one.label,
              stroke: token(one.color),
              width: 1.5,
              points: { show: false },
              ...(Plot.paths.stepped ? { paths: Plot.paths.stepped({ align: 1 }) } : {}),
              ...(one.dash ? { dash: one.dash } : {}),
            })),
          ],
        } as any,
        data as any,
        element,
      );
      watcher = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
      watcher.observe(element);
    });
    return () => {
      gone = true;
      watcher?.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [look, series.length]);
  useEffect(() => plot.current?.setData(data), [JSON.stringify(data)]);
  const [at, setAt] = useState<number>();
  const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);
  return (
    <figure class="chart">
      <figcaption>
        {series.map((one) => (
          <span key={one.label} class="legend">
            <svg width="18" height="8" aria-hidden="true">
              <line x1="0" y1="4" x2="18" y2="4" class={`stroke-${one.color}`} stroke-dasharray={one.dash?.join(" ")} />
            </svg>
            {one.label} <span class="num dim">{count(at === undefined ? sum(one.values) : (one.values[at] ?? 0))}</span>
          </span>
        ))}
        {at !== undefined && times[at] !== undefined && <span class="num dim end">{CLOCK.format(times[at])}</span>}
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${label}: ${series.map((one) => `${one.label} ${sum(one.values)}`).join(", ")}`} />
      <details class="as-table">
        <summary>As a table</summary>
        <div class="scroll-x" tabIndex={0} role="group" aria-label={label}>
          <table class="slim">
            <thead><tr><th>time</th>{series.map((one) => <th key={one.label} class="right">{one.label}</th>)}</tr></thead>
            <tbody>
              {times.map((time, n) => [time, n] as const).filter(([, n]) => series.some((one) => one.values[n])).reverse().map(([time, n]) => (
                <tr key={time}><td class="num">{CLOCK.format(time)}</td>{series.map((one) => <td key={one.label} class="right num">{count(one.values[n] ?? 0)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
