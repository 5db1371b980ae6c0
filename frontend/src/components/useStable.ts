import { useLayoutEffect, useRef, useState } from "react";

type Functions = Record<string, (...args: never[]) => unknown>;

/** Functions that stay the same from one drawing to the next and do what the newest ones do, so that what they are given to is
 * drawn again only for other reasons. For handlers: not to be called while drawing. */
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
