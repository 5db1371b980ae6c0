import { expect, test } from "vitest";

import { isTyping, reader } from "./keyMap";

const press = (key: string, more: object = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, isComposing: false, ...more });

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

test("keys are text in a field, and a dialog's in a dialog", () => {
  document.body.innerHTML = '<input><div role="dialog"><button></button></div><main><button></button></main>';
  expect(isTyping(document.querySelector("input"))).toBe(true);
  expect(isTyping(document.querySelector("[role=dialog] button"))).toBe(true);
  expect(isTyping(document.querySelector("main button"))).toBe(false);
});
