import type { KeyboardEvent } from "react";

/**
 * The library chooses the first entry when the text changes, by a mark on its element. When entries arrive
 * after the last key none is chosen, and Enter would do nothing.
 */
export function openFirst(event: KeyboardEvent<HTMLInputElement>) {
  const entries = event.currentTarget.closest("[role=dialog]");
  if (event.key !== "Enter" || event.nativeEvent.isComposing || !entries || entries.querySelector("[data-selected]"))
    return;
  entries.querySelector<HTMLElement>("[data-action]")?.click();
}
