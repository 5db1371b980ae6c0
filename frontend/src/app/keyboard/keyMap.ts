/** Keys that work anywhere: what they do, and who opens the map of them. */

export const PAGES = {
  o: { to: "/", key: "overview" },
  e: { to: "/experiments", key: "experiments" },
  c: { to: "/compare", key: "compare" },
  q: { to: "/queue", key: "queue" },
  n: { to: "/nodes", key: "nodes" },
  u: { to: "/goodput", key: "goodput" },
  l: { to: "/logs", key: "logs" },
  k: { to: "/checkpoints", key: "checkpoints" },
  m: { to: "/models", key: "models" },
  p: { to: "/deployments", key: "deployments" },
  s: { to: "/settings", key: "settings" },
  d: { to: "/docs/contents" as "/docs/$", key: "docs" },
} as const;

export type Pressed =
  { kind: "map" } | { kind: "filter" } | { kind: "go"; to: (typeof PAGES)[keyof typeof PAGES]["to"] };

const PREFIX_MS = 1200;

interface Press {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  isComposing: boolean;
}

const NOT_OURS = 'input,textarea,select,[role="dialog"],[role="menu"],[role="listbox"]';

/**
 * Whether a key is text where it was pressed, or belongs to a dialog or a menu. Ask while the event
 * is dispatched. Outside a shadow root the target is its host, so the whole path is looked at.
 */
export const isTyping = (event: Event): boolean =>
  event
    .composedPath()
    .some((node) => node instanceof HTMLElement && (node.isContentEditable || node.matches(NOT_OURS)));

/** Understands one key after the other; "g" begins a word of two, within 1.2 s. */
export function reader(): (press: Press, atMs: number) => Pressed | null {
  let begun = Number.NEGATIVE_INFINITY;
  return (press, atMs) => {
    if (press.ctrlKey || press.metaKey || press.altKey || press.isComposing) return null;
    const isSecond = atMs - begun <= PREFIX_MS;
    begun = Number.NEGATIVE_INFINITY;
    if (isSecond && press.key in PAGES) return { kind: "go", to: PAGES[press.key as keyof typeof PAGES].to };
    if (press.key === "g") begun = atMs;
    if (press.key === "?") return { kind: "map" };
    return press.key === "/" ? { kind: "filter" } : null;
  };
}

/** Parts of pages with keys of their own; they mark themselves with data-keys. */
export const PARTS = ["rows", "log", "bars", "chart", "points", "editor"] as const;
export type Part = (typeof PARTS)[number];

/** The parts that are on the page, in the order of PARTS. */
export function partsShown(page: ParentNode): Part[] {
  return PARTS.filter((part) => page.querySelector(`[data-keys="${part}"]`) !== null);
}

/** Opens the map of keys; the component that shows it puts itself here. */
export const keyMap = { open: (): void => {} };
