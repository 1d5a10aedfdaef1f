// Pages in the part of the address behind the #, which browsers do not send: #/runs?status=failed

import { signal } from "./signal";

export interface Place {
  /** The parts of the path. */
  path: string[];
  query: URLSearchParams;
}

function read(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const decode = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export const place = signal<Place>(read());
addEventListener("hashchange", () => (place.value = read()));

export function href(path: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "") as Array<[string, string]>;
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query: Record<string, string | undefined> = {}): void {
  location.hash = href(path, query);
}

/** Changes parameters of the present address, without a new entry in the history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const { path, query } = place.value;
  const all = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", href(path, all));
  place.value = read();
}

export const runHref = (run: string, query: Record<string, string | undefined> = {}) => href(["runs", run], query);
