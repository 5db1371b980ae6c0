import { expect, test } from "vitest";

import { nearest } from "./nearest";
import { defaultText, keysAt, kindText, nodeAt, type SchemaNode, valuesAt } from "./schema";

const ROOT: SchemaNode = {
  $defs: {
    Strategy: {
      type: "object",
      properties: {
        kind: { type: "string", enum: ["ddp", "fsdp"], default: "ddp", description: "How\nwork is shared." },
        compile: { type: "boolean" },
      },
    },
    After: { type: "object", properties: { experiment: { type: "integer", minimum: 1 } } },
  },
  properties: {
    name: { type: "string" },
    strategy: { $ref: "#/$defs/Strategy", description: "How workers share the work." },
    after: { type: "array", items: { $ref: "#/$defs/After" } },
    labels: { type: "object", additionalProperties: { type: "string" } },
    batch: { anyOf: [{ type: "integer", minimum: 1, maximum: 8 }, { const: "auto" }, { type: "null" }] },
  },
};

test("keys are found through references and lists", () => {
  expect(keysAt(ROOT, []).map(({ name, isSection }) => [name, isSection])).toEqual([
    ["name", false],
    ["strategy", true],
    ["after", false],
    ["labels", true],
    ["batch", false],
  ]);
  expect(keysAt(ROOT, ["strategy"]).map(({ name }) => name)).toEqual(["kind", "compile"]);
  expect(keysAt(ROOT, ["after"]).map(({ name }) => name)).toEqual(["experiment"]);
  expect(keysAt(ROOT, ["labels"])).toEqual([]);
  expect(keysAt(ROOT, ["nonsense"])).toEqual([]);
});

test("values that can be listed are", () => {
  expect(valuesAt(ROOT, ["strategy", "kind"])).toEqual(["ddp", "fsdp"]);
  expect(valuesAt(ROOT, ["strategy", "compile"])).toEqual(["true", "false"]);
  expect(valuesAt(ROOT, ["batch"])).toEqual(["auto"]);
  expect(valuesAt(ROOT, ["name"])).toEqual([]);
});

test("what can stand there is put into words", () => {
  const text = (...path: string[]) => kindText(ROOT, nodeAt(ROOT, path) ?? {});
  expect(text("batch")).toBe("whole number, ≥ 1, ≤ 8 or auto");
  expect(text("strategy", "kind")).toBe("ddp | fsdp");
  expect(text("strategy")).toBe("mapping");
  expect(defaultText(nodeAt(ROOT, ["strategy", "kind"]) ?? {})).toBe("ddp");
  expect(defaultText({ default: null })).toBeNull();
});

test("the nearest names come first, also after a slip", () => {
  const names = ["resources", "restarts", "strategy", "search", "slots"];
  const near = (typed: string) => nearest(typed, names, (name) => name);
  expect(near("res")).toEqual(["resources", "restarts"]);
  expect(near("resorces")).toEqual(["resources"]);
  expect(near("stratgey")).toEqual(["strategy"]);
  expect(near("arch")).toEqual(["search"]);
  expect(near("xyz")).toEqual([]);
  expect(near("")).toEqual(names);
});
