import { useRef } from "react";

function randomKey(): string {
  // crypto.randomUUID exists only over https and on localhost
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** The key of a request: the same for the same body, so that a second click, or a retry after a lost
 * answer, does nothing twice. */
export function useIdempotency(): (body: unknown) => string {
  const last = useRef<{ body: string; key: string } | null>(null);
  return (body) => {
    const text = JSON.stringify(body);
    if (last.current?.body !== text) last.current = { body: text, key: randomKey() };
    return last.current.key;
  };
}
