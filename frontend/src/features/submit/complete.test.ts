import { expect, test } from "vitest";

import { completionsAt } from "./complete";
import type { SchemaNode } from "./schema";

const SCHEMA: SchemaNode = {
  properties: {
    name: { type: "string" },
    resources: {
      type: "object",
      properties: { slots: { type: "integer", default: 1 }, pool: { type: "string" } },
    },
    strategy: { type: "object", properties: { kind: { enum: ["ddp", "fsdp", "hsdp"], default: "ddp" } } },
  },
};

function offered(marked: string): string[] {
  const pos = marked.indexOf("|");
  const words = { defaultIs: (value: string) => value };
  return completionsAt(SCHEMA, words, marked.replace("|", ""), pos)?.options.map(({ label }) => label) ?? [];
}

test("keys that are not there yet, the nearest first", () => {
  expect(offered("name: x\n|")).toEqual(["resources", "strategy"]);
  expect(offered("resorces|")).toEqual(["resources"]);
  expect(offered("resources:\n  slots: 2\n  |")).toEqual(["pool"]);
  expect(offered("resources: {p|}")).toEqual(["pool"]);
});

test("values where they can be listed", () => {
  expect(offered("strategy:\n  kind: |")).toEqual(["ddp", "fsdp", "hsdp"]);
  expect(offered("strategy: {kind: fdsp|}")).toEqual(["fsdp"]);
  expect(offered("name: |")).toEqual([]);
  expect(offered("nonsense:\n  |")).toEqual([]);
});

test("what it means stands beside it", () => {
  const words = { defaultIs: (value: string) => `default: ${value}` };
  const [kind] = completionsAt(SCHEMA, words, "strategy:\n  ", 12)?.options ?? [];
  const info = typeof kind?.info === "function" ? (kind.info(kind) as HTMLElement) : null;
  expect(info?.textContent).toBe("ddp | fsdp | hsdp · default: ddp");
});
