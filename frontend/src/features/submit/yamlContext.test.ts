import { expect, test } from "vitest";

import { contextAt, keyUnder } from "./yamlContext";

/** The context at the bar. */
function at(marked: string) {
  const pos = marked.indexOf("|>");
  const found = contextAt(marked.replace("|>", ""), pos);
  return found ? [found.kind, found.path.join("."), found.word] : null;
}

test("a key at the top, in a section, and in a section of a section", () => {
  expect(at("na|>")).toEqual(["key", "", "na"]);
  expect(at("name: x\nresources:\n  sl|>")).toEqual(["key", "resources", "sl"]);
  expect(at("checkpoints:\n  every:\n    |>\n")).toEqual(["key", "checkpoints.every", ""]);
  expect(at("resources:\n  slots: 2\nst|>")).toEqual(["key", "", "st"]);
});

test("a value, also an empty one", () => {
  expect(at("strategy:\n  kind: f|>")).toEqual(["value", "strategy.kind", "f"]);
  expect(at("strategy:\n  kind: |>\n")).toEqual(["value", "strategy.kind", ""]);
  expect(at("strategy:\n  kind:|>")).toBeNull();
});

test("between braces", () => {
  expect(at("strategy: {|>}")).toEqual(["key", "strategy", ""]);
  expect(at("strategy: {kind: fs|>}")).toEqual(["value", "strategy.kind", "fs"]);
  expect(at("checkpoints: {every: {ep|>}}")).toEqual(["key", "checkpoints.every", "ep"]);
  expect(at("a:\n  b: {c: 1, d|>")).toEqual(["key", "a.b", "d"]);
  expect(at("environment: {requirements: [nu|>]}")).toEqual(["value", "environment.requirements", "nu"]);
});

test("in the entries of a list", () => {
  expect(at("after:\n  - experiment: 3\n    wh|>")).toEqual(["key", "after", "wh"]);
  expect(at("after:\n  - ex|>")).toEqual(["key", "after", "ex"]);
  expect(at("after:\n- experiment: 1\n  when: su|>")).toEqual(["value", "after.when", "su"]);
});

test("nothing is offered in comments, quoted text and blocks of text", () => {
  expect(at("name: x # st|>")).toBeNull();
  expect(at('name: "st|>')).toBeNull();
  expect(at("notes: |\n  some st|>")).toBeNull();
  expect(at("notes: |\n  st|>")).toBeNull();
  expect(at("name: two wo|>")).toBeNull();
});

test("what is there already is known", () => {
  const text = "resources:\n  slots: 2\n  \n  pool: a\nname: x\n";
  expect(contextAt(text, 24)?.siblings).toEqual(["slots", "pool"]);
  const flow = "resources: {slots: 2, }";
  expect(contextAt(flow, 22)?.siblings).toEqual(["slots"]);
});

test("the key under the pointer, not a value", () => {
  const text = "strategy:\n  kind: fsdp\nx: {every: {epochs: 1}}\n";
  expect(keyUnder(text, text.indexOf("kind") + 2)?.path).toEqual(["strategy", "kind"]);
  expect(keyUnder(text, text.indexOf("strategy") + 1)?.path).toEqual(["strategy"]);
  expect(keyUnder(text, text.indexOf("epochs") + 1)?.path).toEqual(["x", "every", "epochs"]);
  expect(keyUnder(text, text.indexOf("fsdp") + 1)).toBeNull();
});
