import { expect, test } from "vitest";

import { FOR_ALL_STRATEGIES, quotedText, settingAt, withSetting, withValue } from "./setting";

const set = (document: string, kind = "fsdp") => withSetting(document, "strategy", "kind", kind, FOR_ALL_STRATEGIES);

test("a value is replaced where it stands, and nothing else", () => {
  const document = "# two\ntrainer:\n  model: cnn\n  batch_size: 32   # per worker\nresources:\n  slots: 2\n";
  expect(withSetting(document, "trainer", "batch_size", 64)).toBe(document.replace("batch_size: 32", "batch_size: 64"));
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

const DOCUMENT = `# why
name: digits   # short
trainer: {model: cnn, epochs: 5}
resources:
  slots: 2
  pool: "a b"
`;

test("single values are read as they are meant", () => {
  expect(settingAt(DOCUMENT, ["name"])).toBe("digits");
  expect(settingAt(DOCUMENT, ["trainer", "epochs"])).toBe("5");
  expect(settingAt(DOCUMENT, ["resources", "pool"])).toBe("a b");
  expect(settingAt(DOCUMENT, ["resources", "nodes"])).toBe("");
  expect(settingAt(DOCUMENT, ["strategy", "kind"])).toBe("");
  expect(settingAt(DOCUMENT, ["trainer"])).toBeNull();
  expect(settingAt("entrypoint: [a, b]\n", ["entrypoint"])).toBeNull();
  expect(settingAt("", ["name"])).toBe("");
});

test("a value is set, added or taken away, and the rest stays as it was written", () => {
  expect(withValue(DOCUMENT, ["name"], "x")).toBe(DOCUMENT.replace("name: digits", "name: x"));
  expect(withValue(DOCUMENT, ["project"], "vision")).toBe(DOCUMENT.replace("name:", "project: vision\nname:"));
  expect(withValue(DOCUMENT, ["resources", "nodes"], "2")).toBe(
    DOCUMENT.replace("  slots: 2", "  nodes: 2\n  slots: 2"),
  );
  expect(withValue(DOCUMENT, ["trainer", "epochs"], "")).toBe(DOCUMENT.replace(", epochs: 5", ""));
  expect(withValue(DOCUMENT, ["trainer", "model"], "")).toBe(DOCUMENT.replace("model: cnn, ", ""));
  expect(withValue(DOCUMENT, ["resources", "slots"], "")).toBe(DOCUMENT.replace("  slots: 2\n", ""));
  expect(withValue(DOCUMENT, ["name"], "")).toBe(DOCUMENT.replace("name: digits   # short\n", ""));
  expect(withValue("a: 1\nresources:\n  slots: 2\n", ["resources", "slots"], "")).toBe("a: 1\n");
  expect(withValue("", ["name"], "x")).toBe("name: x\n");
  expect(withValue(DOCUMENT, ["project"], "")).toBe(DOCUMENT);
});

test("text is quoted where it would be something else", () => {
  expect(["digits", "train.py --epochs 3", "a/b"].map(quotedText)).toEqual(["digits", "train.py --epochs 3", "a/b"]);
  expect(["1e-4", "true", "a: b", "x # y", "[a]", " x", "*a"].map(quotedText)).toEqual([
    '"1e-4"',
    '"true"',
    '"a: b"',
    '"x # y"',
    '"[a]"',
    '" x"',
    '"*a"',
  ]);
});
