// Pages by address: /runs?status=failed. The server sends the same document for all of them.

import { signal } from "./signal";

export interface Place {
  /** The parts of the path. */
  path: string[];
  query: URLSearchParams;
}

function read(): Place {
  const decode = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { path: location.pathname.split("/").filter(Boolean).map(decode), query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());
addEventListener("popstate", () => (place.value = read()));

/** Opens links to pages of the dashboard without loading the document again. */
addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a");
  const isOther = event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (!link || isOther || link.target || link.hasAttribute("download") || link.origin !== location.origin || link.pathname.startsWith("/v1/")) return;
  if (link.hash) return;
  event.preventDefault();
  visit(link.pathname + link.search);
});

function visit(address: string): void {
  if (address !== location.pathname + location.search) history.pushState(null, "", address);
  place.value = read();
  scrollTo(0, 0);
}

export function href(path: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "") as Array<[string, string]>;
  const text = new URLSearchParams(given).toString();
  return `/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query: Record<string, string | undefined> = {}): void {
  visit(href(path, query));
}

/** Changes parameters of the present address, without a new entry in the history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const { path, query } = place.value;
  const all = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", href(path, all));
  place.value = read();
}

export const runHref = (run: string, query: Record<string, string | undefined> = {}) => href(["runs", run], query);
