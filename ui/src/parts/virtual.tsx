// A list that renders only the rows near the screen.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Props {
  count: number;
  rowHeight: number;
  /** Height of the list; it is lower if there are few rows. */
  height: number;
  row(at: number): ComponentChildren;
  /** Called with the first and the last rendered row. */
  shown?(from: number, to: number): void;
  /** Stays above the rows while they scroll. */
  head?: ComponentChildren;
  headHeight?: number;
  /** Begin at the last row. */
  fromEnd?: boolean;
  /** Begin at this row. */
  fromRow?: number | undefined;
  label: string;
  class?: string;
  role?: "group" | "list" | "rowgroup";
}

const MARGIN = 12;

/** The height of the window, less what stands above and below. */
export function useRoom(besides: number, least: number): number {
  const [room, set] = useState(() => Math.max(least, innerHeight - besides));
  useEffect(() => {
    const measure = () => set(Math.max(least, innerHeight - besides));
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return room;
}

export function Virtual(props: Props) {
  const { count, rowHeight } = props;
  const ref = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const height = Math.min(props.height, Math.max(rowHeight, count * rowHeight) + (props.headHeight ?? 0));
  const from = Math.max(0, Math.floor(top / rowHeight) - MARGIN);
  const to = Math.min(count, Math.ceil((top + height) / rowHeight) + MARGIN);
  useEffect(() => props.shown?.(from, to), [from, to, count]);
  const atEnd = useRef(props.fromEnd ?? false);
  useEffect(() => {
    if (atEnd.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [count]);
  const start = useRef(props.fromRow);
  useEffect(() => {
    if (start.current === undefined || count <= start.current || !ref.current) return;
    ref.current.scrollTop = Math.max(0, start.current * rowHeight - height / 3);
    start.current = undefined;
  }, [count]);
  const rows = [];
  for (let at = from; at < to; at++) rows.push(props.row(at));
  return (
    <div
      ref={ref}
      class={`virtual ${props.class ?? ""}`}
      role={props.role ?? "group"}
      aria-label={props.label}
      tabIndex={0}
      style={{ height: `${height}px` }}
      onScroll={() => {
        const box = ref.current;
        if (!box) return;
        atEnd.current = (props.fromEnd ?? false) && box.scrollTop + box.clientHeight >= box.scrollHeight - rowHeight;
        setTop(box.scrollTop);
      }}
    >
      {props.head}
      <div class="virtual-all" style={{ height: `${count * rowHeight}px` }}>
        <div class="virtual-part" style={{ transform: `translateY(${from * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
