/** Lets an element reach down to the lower edge of the window, whatever stands above and below it. */
import { useEffect, useState } from "react";

const LEAST_PX = 320;

/**
 * Return the height in px at which `pane` ends where the page's scroll area does. `fill`: the element
 * inside of `pane` that takes what is left. Null until it is known.
 */
export function useFillHeight(pane: HTMLElement | null, fill: HTMLElement | null): number | null {
  const [height, setHeight] = useState<number | null>(null);
  useEffect(() => {
    const main = pane?.closest("main");
    if (!pane || !fill || !main) return undefined;
    const measure = (): void => {
      const above = fill.getBoundingClientRect().top - main.getBoundingClientRect().top + main.scrollTop;
      const below = pane.getBoundingClientRect().bottom - fill.getBoundingClientRect().bottom;
      const margin =
        Number.parseFloat(getComputedStyle(main).paddingBottom) +
        Number.parseFloat(getComputedStyle(pane).marginBottom);
      setHeight(Math.max(LEAST_PX, Math.floor(main.clientHeight - above - below - margin)));
    };
    // What is above changes with the pane's own parts, and with the page's: both are children of main.
    const sizes = new ResizeObserver(measure);
    sizes.observe(main);
    const watch = (): void => {
      for (const child of [...main.children, ...pane.children]) sizes.observe(child);
      measure();
    };
    const parts = new MutationObserver(watch);
    parts.observe(main, { childList: true });
    parts.observe(pane, { childList: true });
    watch();
    return () => {
      sizes.disconnect();
      parts.disconnect();
    };
  }, [pane, fill]);
  return height;
}
