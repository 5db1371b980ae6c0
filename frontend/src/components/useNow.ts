import { useSyncExternalStore } from "react";

import { serverNow } from "../lib/time";

// One ticker for every age on the page, asleep when nobody looks.
let now = serverNow();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!timer) {
    now = serverNow();
    timer = setInterval(() => {
      if (document.hidden) return;
      now = serverNow();
      for (const each of listeners) each();
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && timer) {
      clearInterval(timer);
      timer = null;
    }
  };
}

/** The server's time in ms, once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
