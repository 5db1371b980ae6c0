/** What floats above the page and gives the focus back to where it came from. */
const FLOATING = '[role="dialog"],[role="menu"],[role="listbox"]';
const FOCUSABLE =
  'a[href],button:not([disabled]),input:not([disabled]),select:not([disabled]),textarea:not([disabled]),[tabindex]:not([tabindex="-1"])';
/** Who closes something has first the time to say where the focus goes. */
const WAIT_MS = 60;

/**
 * Keeps the keyboard's focus on the page. What has the focus may vanish under it: a dialog that was opened from a menu, a
 * filter that is taken away, a row that is gone. Browsers then begin anew at the top of the document. Here the focus goes
 * to what opened the dialog, else to what is left beside what vanished, else to the page's content. Returns how to stop.
 */
export function keepFocus(main: () => HTMLElement | null): () => void {
  let current: HTMLElement | null = null;
  let around: HTMLElement[] = [];
  let below: HTMLElement | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onFocus = (event: FocusEvent): void => {
    if (!(event.target instanceof HTMLElement) || event.target === document.body) return;
    current = event.target;
    around = [];
    for (let element = current.parentElement; element && element !== document.body; element = element.parentElement)
      around.push(element);
    if (current.closest(FLOATING) === null) below = current;
  };
  const restore = (): void => {
    timer = undefined;
    if (current === null || current.isConnected || document.activeElement !== document.body) return;
    const floated = around.some((element) => element.matches(FLOATING));
    const content = main();
    const beside = around.find(
      (element) => element.isConnected && element !== content && content?.contains(element) === true,
    );
    const next =
      (floated ? (below?.isConnected ? below : null) : beside?.querySelector<HTMLElement>(FOCUSABLE)) ?? content;
    next?.focus({ preventScroll: true });
  };
  const observer = new MutationObserver((changes) => {
    // A button that waits for an answer is disabled meanwhile, and browsers take the focus from it.
    const isBack = changes.some(({ type, target }) => type === "attributes" && target === current);
    if (isBack && current?.matches(":enabled") && document.activeElement === document.body) current.focus();
    if (current === null || current.isConnected || timer !== undefined) return;
    timer = setTimeout(restore, WAIT_MS);
  });
  document.addEventListener("focusin", onFocus);
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
  return () => {
    document.removeEventListener("focusin", onFocus);
    observer.disconnect();
    clearTimeout(timer);
  };
}
