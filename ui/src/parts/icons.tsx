// Drawn icons: a status is recognised by its shape, not by its colour.

const PATHS = {
  queued: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z",
  running: "M5 3l8 5-8 5z",
  waiting: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM8 5v3.2l2.2 1.6",
  sleeping: "M12.6 9.8A5.3 5.3 0 1 1 6.6 3a4.3 4.3 0 0 0 6 6.8z",
  paused: "M5.5 3v10M10.5 3v10",
  undo: "M3 7h6.5a3.5 3.5 0 0 1 0 7H6M3 7l3-3M3 7l3 3",
  parked: "M4 14V2.5M4 3h8l-2 2.7L12 8.5H4",
  done: "M3 8.5l3.2 3.2L13 4.6",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM4.2 4.2l7.6 7.6",
  copy: "M6 5.5h7v8H6zM3 10.5v-8h7",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13",
  health: "M1.5 8h3l1.6-4 3 8 1.6-4h3.8",
  runs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  recover: "M13 8a5 5 0 1 1-1.6-3.7M13 2.2v2.9h-2.9",
  inbox: "M2.5 9l2-6h7l2 6v4h-11zM2.5 9h3.2l.8 1.6h3L10.300 9h3.2",
  queue: "M2.5 3.500h11v3h-11zM2.5 9.500h11v3h-11z",
  start: "M8 3v10M3 8h10",
  api: "M5.500 4L2 8l3.500 4M10.500 4L14 8l-3.500 4",
  operation: "M3 3.500h4v4H3zM9 8.500h4v4H9zM9 5.500h4M3 10.500h4",
  bowl: "M2 5.500h12c0 4.500-2.500 7.500-6 7.500s-6-3-6-7.500zM9.500 5.500L7.500 8l2 1.500L7 13",
  warn: "M8 2.500l6 10.800H2zM8 6.500v3.200M8 11.300v.4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} class={name === "running" ? "filled" : ""} />
    </svg>
  );
}
