import { useLayoutEffect, useMemo, useRef, useState } from "react";

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

/** The same object for as long as it says the same, as JSON. */
export function useSame<T>(value: T): T {
  // oxlint-disable-next-line react/exhaustive-deps -- the text says all that the value does
  return useMemo(() => value, [JSON.stringify(value)]);
}
