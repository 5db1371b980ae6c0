/** Where a page is scrolled to: the top of a new one, and where one was when one comes back. */
import type { ParsedLocation, RegisteredRouter } from "@tanstack/react-router";

declare module "@tanstack/history" {
  interface HistoryState {
    /** Of an earlier visit, whose place is to be shown again. */
    scrollKey?: string;
  }
}

/** Under which the places of a page's boxes are remembered. */
export const scrollKey = ({ state, href }: ParsedLocation): string =>
  // oxlint-disable-next-line no-underscore-dangle -- the router's name for it
  state.scrollKey ?? state.__TSR_key ?? href;

/**
 * The router only knows the window's scrolling, and ours is that of #main, which stays when pages change:
 * a page that is new begins at its top. What changes of a page's address leaves it where it is.
 */
export function beginAtTop(router: RegisteredRouter): void {
  let isNew = true;
  router.history.subscribe(({ action }) => {
    isNew = action.type === "PUSH" || action.type === "REPLACE";
  });
  router.subscribe("onRendered", ({ toLocation, fromLocation, pathChanged }) => {
    if (!isNew || !pathChanged || !fromLocation || toLocation.hash || toLocation.state.scrollKey) return;
    const main = document.getElementById("main");
    main?.scrollTo({ top: 0 });
    // Keys that went nowhere in particular go on in what is new.
    if (document.activeElement === document.body) main?.focus({ preventScroll: true });
  });
}
