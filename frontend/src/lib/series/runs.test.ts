// @vitest-environment node
import { expect, test } from "vitest";

import { lineLabels, NO_LABELS, splitRun } from "./runs";

// The first run has no label.
const LABELS = new Set(["", "fold-1", "train", "run-2"]);

test("a series belongs to the run whose label it begins with", () => {
  expect(splitRun("fold-1/train/loss", LABELS)).toEqual({ run: "fold-1", metric: "train/loss" });
  expect(splitRun("run-2/fold-1/loss", LABELS)).toEqual({ run: "run-2/fold-1", metric: "loss" });
  expect(splitRun("fold-2/loss", LABELS)).toEqual({ run: "", metric: "fold-2/loss" });
  expect(splitRun("train/loss", LABELS), "a group of metrics is no run").toEqual({ run: "", metric: "train/loss" });
  expect(splitRun("run-3/loss", LABELS), "nothing has recorded it").toEqual({ run: "", metric: "run-3/loss" });
  expect(splitRun("run-2", LABELS)).toEqual({ run: "", metric: "run-2" });
});

test("lines are called as what they differ in", () => {
  expect(lineLabels(["train/loss"], NO_LABELS, "base")).toEqual(["loss"]);
  expect(lineLabels(["train/loss", "val/loss"], NO_LABELS, "base")).toEqual(["train", "val"]);
  expect(lineLabels(["loss", "fold-1/loss"], LABELS, "base")).toEqual(["base", "fold-1"]);
  expect(lineLabels(["fold-1/loss"], LABELS, "base")).toEqual(["fold-1"]);
  expect(lineLabels(["train/loss", "val/loss", "run-2/val/loss"], LABELS, "base")).toEqual([
    "train",
    "val",
    "val run-2",
  ]);
  expect(lineLabels(["train/loss", "train/acc"], NO_LABELS, "base")).toEqual(["train/loss", "train/acc"]);
});
