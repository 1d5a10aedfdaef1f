// A value that components follow.

import { useEffect, useState } from "preact/hooks";

export interface Signal<T> {
  value: T;
  follow(follower: (value: T) => void): () => void;
}

export function signal<T>(first: T): Signal<T> {
  let held = first;
  const followers = new Set<(value: T) => void>();
  return {
    get value() {
      return held;
    },
    set value(next: T) {
      if (Object.is(next, held)) return;
      held = next;
      for (const follower of [...followers]) follower(next);
    },
    follow(follower) {
      followers.add(follower);
      return () => followers.delete(follower);
    },
  };
}

/** Renders again when the signal changes. */
export function useSignal<T>(of: Signal<T>): T {
  const [value, set] = useState(of.value);
  useEffect(() => {
    set(() => of.value);
    return of.follow((next) => set(() => next));
  }, [of]);
  return value;
}
