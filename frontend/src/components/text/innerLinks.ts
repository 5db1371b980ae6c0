import { type AnyRouter, useRouter } from "@tanstack/react-router";
import { useEffect, type RefObject } from "react";

import { url } from "../../lib/address";

interface Press {
  button: number;
  ctrlKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
  altKey: boolean;
  defaultPrevented: boolean;
  preventDefault: () => void;
}

/** Follow a plain click on a link of this site without loading the dashboard anew; other clicks are the browser's. */
export function followInner(router: AnyRouter | undefined, event: Press, link: HTMLAnchorElement | null): void {
  const href = link?.getAttribute("href");
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!router || !href?.startsWith(url("/")) || link?.target || !isPlain || event.defaultPrevented) return;
  event.preventDefault();
  router.history.push(href);
}

/** The router, or nothing where a part of a page is shown alone. */
export const useRouterHere = (): AnyRouter | undefined => useRouter({ warn: false });

/** Links inside HTML that did not come from components. */
export function useInnerLinks(area: RefObject<HTMLElement | null>): void {
  const router = useRouterHere();
  useEffect(() => {
    const element = area.current;
    if (!element) return undefined;
    const onClick = (event: MouseEvent): void =>
      followInner(router, event, (event.target as Element | null)?.closest("a") ?? null);
    element.addEventListener("click", onClick);
    return () => element.removeEventListener("click", onClick);
  }, [router, area]);
}
