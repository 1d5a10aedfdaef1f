// Counts per minute as lines. The plot library is loaded when the first chart appears.

import { useEffect, useRef } from "preact/hooks";
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
  const data = [times.map((at) => at / 1000), ...series.map((one) => one.values)];
  useEffect(() => {
    let gone = false;
    let watcher: ResizeObserver | undefined;
    void import("uplot").then(({ default: Plot }) => {
      const element = box.current;
      if (gone || !element) return;
      const token = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      const axis = { stroke: token("ink-dim"), grid: { stroke: token("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      plot.current = new Plot(
        {
          width: Math.max(200, element.clientWidth),
          height: 180,
          legend: { show: false },
          cursor: { show: false },
          padding: [8, 8, 0, 0],
          axes: [{ ...axis, space: 70, values: (_: unknown, all: number[]) => all.map((at) => CLOCK.format(at * 1000)) }, { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }],
          scales: { y: { range: (_: unknown, __: number, max: number) => [0, Math.max(4, max * 1.1)] } },
          series: [
            {},
            ...series.map((one) => ({
              label: one.label,
              stroke: token(one.color),
              width: 1.75,
              points: { show: false },
              ...(one.dash ? { dash: one.dash } : {}),
            })),
          ],
        } as any,
        data as any,
        element,
      );
      watcher = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: 180 }));
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
  const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);
  return (
    <figure class="chart">
      <figcaption>
        {series.map((one) => (
          <span key={one.label} class="legend">
            <svg width="18" height="8" aria-hidden="true">
              <line x1="0" y1="4" x2="18" y2="4" class={`stroke-${one.color}`} stroke-dasharray={one.dash?.join(" ")} />
            </svg>
            {one.label} <span class="num dim">{count(sum(one.values))}</span>
          </span>
        ))}
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${label}: ${series.map((one) => `${one.label} ${sum(one.values)}`).join(", ")}`} />
    </figure>
  );
}
