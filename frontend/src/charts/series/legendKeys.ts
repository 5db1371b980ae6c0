/** The keys of a chart's legend: elements that are made once and then only filled, since they are written at each move of
 * the pointer and somebody may be about to press one. */
import css from "../chart.module.css";

export interface LegendKey {
  /** Of the line. */
  key: string;
  label: string;
  color: string;
  isDashed: boolean;
  value: string;
  /** The value is of an earlier place than the cursor's. */
  isPast: boolean;
  /** Words about its best value; "" for none. */
  best: string;
  isHidden: boolean;
  /** What a press does; null: it is the only line, and no button. */
  hint: string | null;
}

function made(tag: "button" | "span"): HTMLElement {
  const key = document.createElement(tag);
  key.className = css["key"] ?? "";
  if (key instanceof HTMLButtonElement) key.type = "button";
  key.append(
    document.createElement("i"),
    document.createElement("span"),
    document.createElement("b"),
    document.createElement("small"),
  );
  return key;
}

const put = (element: Element | null | undefined, text: string): void => {
  if (element && element.textContent !== text) element.textContent = text;
};

/** Fill the legend: `rest` is written behind the keys. */
export function fillLegend(element: HTMLElement, keys: readonly LegendKey[], rest: string): void {
  keys.forEach((one, at) => {
    const tag = one.hint === null ? "span" : "button";
    let key = element.children[at] as HTMLElement | undefined;
    if (key?.localName !== tag) {
      const next = made(tag);
      if (key) key.replaceWith(next);
      else element.append(next);
      key = next;
    }
    const [mark, label, value, best] = key.children as unknown as [HTMLElement, HTMLElement, HTMLElement, HTMLElement];
    mark.style.borderTopColor = one.color;
    mark.style.borderTopStyle = one.isDashed ? "dashed" : "solid";
    put(label, one.label);
    put(value, one.value);
    put(best, one.best);
    value.toggleAttribute("data-past", one.isPast);
    key.toggleAttribute("data-off", one.isHidden);
    key.dataset["line"] = one.key;
    key.title = one.hint === null ? one.label : `${one.label}\n${one.hint}`;
    if (one.hint !== null) key.setAttribute("aria-pressed", String(!one.isHidden));
  });
  while (element.children.length > keys.length + 1) element.lastElementChild?.remove();
  let last = element.children[keys.length] as HTMLElement | undefined;
  if (last?.localName !== "em") {
    const next = document.createElement("em");
    if (last) last.replaceWith(next);
    else element.append(next);
    last = next;
  }
  put(last, rest);
}

/**
 * The lines that are hidden after a press on one: it comes or goes; `alone` leaves only it, and a second time shows all.
 * The last one that is shown does not go: then all come back.
 */
export function pressed(
  hidden: ReadonlySet<string>,
  keys: readonly string[],
  key: string,
  alone: boolean,
): ReadonlySet<string> {
  const others = keys.filter((one) => one !== key);
  const isAlone = !hidden.has(key) && others.every((one) => hidden.has(one));
  if (alone) return new Set(isAlone ? [] : others);
  if (isAlone) return new Set();
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  return next;
}
