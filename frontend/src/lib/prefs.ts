/** What this browser remembers. Storage may be blocked or full: then it lasts until a reload. */
import { useSyncExternalStore } from "react";

const memory = new Map<string, string>();
const listeners = new Set<() => void>();

export function readPref(key: string): string | null {
  if (memory.has(key)) return memory.get(key) ?? null;
  try {
    return localStorage.getItem(`muster.${key}`);
  } catch {
    return null;
  }
}

export function writePref(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`muster.${key}`);
    else localStorage.setItem(`muster.${key}`, value);
    memory.delete(key);
  } catch {
    if (value === null) memory.delete(key);
    else memory.set(key, value);
  }
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePref(key: string): [string | null, (value: string | null) => void] {
  const value = useSyncExternalStore(subscribe, () => readPref(key));
  return [value, (next) => writePref(key, next)];
}
