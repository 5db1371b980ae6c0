import { expect, test } from "vitest";

import { isTyping, partsShown, reader } from "./keyMap";

const press = (key: string, more: object = {}) => ({
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  isComposing: false,
  ...more,
});

test("g and a letter go to a page, in time and in this order", () => {
  const read = reader();
  expect(read(press("e"), 0)).toBeNull();
  expect(read(press("g"), 10)).toBeNull();
  expect(read(press("e"), 500)).toEqual({ kind: "go", to: "/experiments" });
  expect(read(press("e"), 600)).toBeNull();
  read(press("g"), 1000);
  expect(read(press("q"), 3000)).toBeNull();
  read(press("g"), 4000);
  expect(read(press("x"), 4100)).toBeNull();
  expect(read(press("n"), 4200)).toBeNull();
});

test("with a modifier a key belongs to somebody else", () => {
  const read = reader();
  expect(read(press("?", { ctrlKey: true }), 0)).toBeNull();
  expect(read(press("?"), 0)).toEqual({ kind: "map" });
  expect(read(press("/"), 0)).toEqual({ kind: "filter" });
});

/** What a listener of the window finds of a key pressed in this element. */
function typingIn(element: Element | null | undefined): boolean {
  let found: boolean | undefined;
  const listen = (event: Event): void => {
    found = isTyping(event);
  };
  window.addEventListener("keydown", listen, { once: true });
  element?.dispatchEvent(new KeyboardEvent("keydown", { key: "g", bubbles: true, composed: true }));
  window.removeEventListener("keydown", listen);
  if (found === undefined) throw new Error("The key did not arrive.");
  return found;
}

test("keys are text in a field, and a dialog's in a dialog", () => {
  document.body.innerHTML = '<input><div role="dialog"><button></button></div><main><button></button></main>';
  expect(typingIn(document.querySelector("input"))).toBe(true);
  expect(typingIn(document.querySelector("[role=dialog] button"))).toBe(true);
  expect(typingIn(document.querySelector("main button"))).toBe(false);
});

test("keys are text in a field inside a shadow root", () => {
  document.body.innerHTML = "<div></div>";
  const root = document.querySelector("div")?.attachShadow({ mode: "open" });
  if (root) root.innerHTML = "<textarea></textarea><button></button>";
  expect(typingIn(root?.querySelector("textarea"))).toBe(true);
  expect(typingIn(root?.querySelector("button"))).toBe(false);
});

test("the map shows the keys of what is on the page", () => {
  const page = document.createElement("main");
  page.innerHTML = '<figure data-keys="chart"></figure><div data-keys="log"></div><figure data-keys="chart"></figure>';
  expect(partsShown(page)).toEqual(["log", "chart"]);
  expect(partsShown(document.createElement("main"))).toEqual([]);
});
