import { useLayoutEffect, useRef, useState } from "react";

type Functions = Record<string, (...args: never[]) => unknown>;

/** Handlers whose identity never changes and which always do what their newest versions do, so that memoized components are
 * not rendered again because of them. Do not call them while rendering. */
export function useStable<T extends Functions>(functions: T): T {
  const latest = useRef(functions);
  useLayoutEffect(() => {
    latest.current = functions;
  });
  const [stable] = useState(() =>
    Object.fromEntries(
      Object.keys(functions).map((name) => [name, (...args: never[]) => latest.current[name]?.(...args)]),
    ),
  );
  return stable as T;
}
