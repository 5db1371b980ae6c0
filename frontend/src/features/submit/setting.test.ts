import { expect, test } from "vitest";

import { FOR_ALL_STRATEGIES, withSetting } from "./setting";
import { TEMPLATES } from "./templates";

const set = (document: string, kind = "fsdp") => withSetting(document, "strategy", "kind", kind, FOR_ALL_STRATEGIES);

test("a value is replaced where it stands, and nothing else", () => {
  expect(withSetting(TEMPLATES.ddp, "trainer", "batch_size", 64)).toBe(
    TEMPLATES.ddp.replace("batch_size: 32", "batch_size: 64"),
  );
  expect(set("a: 1\nstrategy: {kind: ddp}  # as before\n")).toBe("a: 1\nstrategy: {kind: fsdp}  # as before\n");
  expect(set("strategy:\n  # why\n  kind: 'ddp' # simple\n  accumulate: 2\n")).toBe(
    "strategy:\n  # why\n  kind: fsdp # simple\n  accumulate: 2\n",
  );
});

test("what is missing is added", () => {
  expect(set("name: x")).toBe("name: x\nstrategy:\n  kind: fsdp\n");
  expect(set("strategy:\nname: x\n")).toBe("strategy: {kind: fsdp}\nname: x\n");
  expect(set("strategy: {}\n")).toBe("strategy: {kind: fsdp}\n");
  expect(set("strategy: {accumulate: 4}\n")).toBe("strategy: {kind: fsdp, accumulate: 4}\n");
  expect(withSetting("trainer:\n  model: gpt  # small\nname: x\n", "trainer", "batch_size", 8)).toBe(
    "trainer:\n  batch_size: 8\n  model: gpt  # small\nname: x\n",
  );
  expect(set('{"name": "x"}')).toBe('{strategy: {kind: fsdp}, "name": "x"}');
});

test("options of the kind that is replaced go with it, those of all kinds stay", () => {
  expect(set("strategy: {kind: local_sgd, sync_every: 4, accumulate: 2}\nname: x\n")).toBe(
    "strategy: {kind: fsdp, accumulate: 2}\nname: x\n",
  );
  expect(set("strategy:\n  kind: ddp\n  precision: bf16\n  bucket_mb: 5\nname: x\n")).toBe(
    "strategy: {kind: fsdp, precision: bf16}\nname: x\n",
  );
});

test("what is not understood is left alone", () => {
  for (const text of [
    "",
    "just words",
    "- a\n- b\n",
    "strategy: &s {kind: ddp}\n",
    "a: 1\n---\nb: 2\n",
    "strategy: ddp\n",
    "strategy:\n  kind: {choice: [ddp, fsdp]}\n",
  ])
    expect(set(text)).toBeNull();
});
