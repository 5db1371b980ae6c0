// @vitest-environment node
import { describe, expect, test } from "vitest";

import type { ChartSpec } from "../lib/series/series";
import { arranged, pinned, PINNED, placed, readLayout } from "./chartLayout";
import { pressed } from "./series/legendKeys";
import { isUnderTitle } from "./series/plotOptions";
import { MAX_RANGES, rangeOf, readRanges, withRange } from "./series/yRanges";

const specs = ["train/loss", "train/acc", "comm/ms"].map((id): ChartSpec => ({
  id,
  group: id.slice(0, id.indexOf("/")),
  names: [id],
}));
const shown = (layout: ReturnType<typeof readLayout>): [string, string[]][] =>
  [...arranged(specs, layout)].map(([group, members]) => [group, members.map(({ id }) => id)]);

describe("pinned and moved charts", () => {
  const nothing = readLayout(null);

  test("a pinned chart comes first, once, and goes back to its place", () => {
    const one = pinned(nothing, "comm/ms");
    expect(shown(one)).toEqual([
      [PINNED, ["comm/ms"]],
      ["train", ["train/loss", "train/acc"]],
    ]);
    expect(shown(pinned(one, "comm/ms"))).toEqual(shown(nothing));
  });

  test("a chart takes a place of its group; one that is new stands behind those that were moved", () => {
    const moved = placed(nothing, "train", ["train/loss"], "train/acc", 0);
    expect(shown(moved)[0]).toEqual(["train", ["train/acc", "train/loss"]]);
    expect(shown(readLayout(JSON.stringify(placed(nothing, "train", [], "train/acc", 0))))[0]?.[1]).toEqual([
      "train/acc",
      "train/loss",
    ]);
  });

  test("pins of metrics that this page does not have are kept", () => {
    const elsewhere = { ...nothing, pinned: ["eval/f1", "train/acc", "train/loss"] };
    expect(placed(elsewhere, PINNED, ["train/acc", "train/loss"], "train/loss", 0).pinned).toEqual([
      "train/loss",
      "train/acc",
      "eval/f1",
    ]);
  });

  test("what is not ours is nothing", () => {
    for (const text of ["{", "[]", '{"pinned": 3, "order": {"a": 1}}', "null"])
      expect(shown(readLayout(text))).toEqual(shown(nothing));
  });
});

describe("ranges of y axes in the address", () => {
  test("any name, and an end that is open", () => {
    const text = withRange(withRange(undefined, "a:b;c%", [0.5, null]), "train/loss", [-1e-3, 2]);
    expect([...readRanges(text)]).toEqual([
      ["a:b;c%", [0.5, null]],
      ["train/loss", [-1e-3, 2]],
    ]);
    expect(withRange(withRange(text, "a:b;c%", null), "train/loss", null)).toBeUndefined();
  });

  test("nothing else is a range", () => {
    expect(rangeOf("2", "1")).toBeNull();
    expect(rangeOf("1", "1")).toBeNull();
    expect(rangeOf("x", " ")).toBeNull();
    expect(readRanges("a:1:0;:1:2;b;c:NaN:Infinity").size).toBe(0);
  });

  test("there are only so many: the newest", () => {
    let text: string | undefined;
    for (let no = 0; no <= MAX_RANGES; no += 1) text = withRange(text, `m${no}`, [0, 1]);
    const names = [...readRanges(text).keys()];
    expect([names.length, names[0], names.at(-1)]).toEqual([MAX_RANGES, "m1", `m${MAX_RANGES}`]);
  });
});

test("a press hides a line, the last one brings all back, and with Ctrl only it stays", () => {
  const keys = ["a", "b", "c"];
  const press = (hidden: string[], key: string, alone = false): string[] =>
    [...pressed(new Set(hidden), keys, key, alone)].toSorted();
  expect(press([], "a")).toEqual(["a"]);
  expect(press(["a"], "a")).toEqual([]);
  expect(press(["a", "b"], "c")).toEqual([]);
  expect(press([], "b", true)).toEqual(["a", "c"]);
  expect(press(["a", "c"], "b", true)).toEqual([]);
  expect(press(["a"], "a", true)).toEqual(["b", "c"]);
});

test("the label of a tick makes room for the title at the end of the axis", () => {
  const u = { width: 460, scales: { x: { min: 0, max: 1000 } } } as unknown as Parameters<typeof isUnderTitle>[0];
  const of = (value: number, logX = false): boolean =>
    isUnderTitle(u, value, {
      xName: "Step",
      view: { x: "step", logX, logY: false, smoothing: 0, clip: false },
    });
  expect([0, 400, 800, 900, 1000].map((value) => of(value))).toEqual([false, false, false, true, true]);
});
