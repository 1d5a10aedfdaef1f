// Light or dark: as the system prefers, unless the user chose one.

import { signal } from "./signal";

export type Theme = "light" | "dark";
const KEPT = "goldseam.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const chosen = (): Theme | undefined => {
  const kept = localStorage.getItem(KEPT);
  return kept === "light" || kept === "dark" ? kept : undefined;
};
export const theme = signal<Theme>(chosen() ?? (system.matches ? "dark" : "light"));

function apply(): void {
  theme.value = chosen() ?? (system.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme.value;
}

export function choose(next: Theme): void {
  localStorage.setItem(KEPT, next);
  apply();
}

system.addEventListener("change", apply);
apply();
