/** Secrets that a link carries behind its "#", which no server and no log sees. */
import { useEffect, useState } from "react";

/** Takes `#name=value` out of the address at once, so that the secret does not stay in history. */
function takeFromHash(name: string): string | null {
  const value = new URLSearchParams(location.hash.slice(1)).get(name);
  if (value !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return value;
}

/** The value of `#name=value` in the address: what the page was opened with, or what was pasted into its tab since. */
export function useFromHash(name: string): string | null {
  const [value, setValue] = useState(() => takeFromHash(name));
  useEffect(() => {
    const onChange = (): void => {
      const pasted = takeFromHash(name);
      if (pasted !== null) setValue(pasted);
    };
    window.addEventListener("hashchange", onChange);
    return () => window.removeEventListener("hashchange", onChange);
  }, [name]);
  return value;
}
