import i18next from "i18next";
import { expect, test } from "vitest";

import { pages } from "../../i18n/en/pages";
import { showTexts } from "../../testing/texts";
import { CLASS_COLORS, lostShare, PART_COLORS, partsOf, piecesOf, slotTime } from "./pieces";

test("pieces stand in one order, whatever comes first, and one that is not known stands last", () => {
  const pieces = piecesOf({ a_new_class: 10, repeated: 20, stopping: 0, preparing: 30, productive: 40 });
  expect(pieces.map(({ kind, share }) => [kind, share])).toEqual([
    ["productive", 0.4],
    ["preparing", 0.3],
    ["repeated", 0.2],
    ["a_new_class", 0.1],
  ]);
  expect(piecesOf({})).toEqual([]);
});

test("each class has a name and a color of its own", () => {
  const kinds = { ...CLASS_COLORS, ...PART_COLORS };
  expect(Object.keys(kinds).toSorted()).toEqual(Object.keys(pages.goodput.kind).toSorted());
  expect(new Set(Object.values(CLASS_COLORS)).size).toBe(Object.keys(CLASS_COLORS).length);
});

test("productive time that no part explains is other, and without parts there are none", () => {
  const parts = partsOf({ productive: 100 }, { computation: 60, data: 10 });
  expect(parts.map(({ kind, slotS }) => [kind, slotS])).toEqual([
    ["computation", 60],
    ["data", 10],
    ["other", 30],
  ]);
  expect(partsOf({ productive: 100 }, {})).toEqual([]);
});

test("what is evaluated or not measured is not lost", () => {
  expect(lostShare({ productive: 50, evaluation: 10, unmeasured: 20, saving: 20 })).toBeCloseTo(0.2);
});

test("slot time has two significant digits and a unit", async () => {
  await showTexts("en");
  const shown = [4 * 3600 + 130, 15_120_000, 3600, 36, 34.6, 0].map((slotS) => slotTime(i18next.t, slotS));
  expect(shown).toEqual([
    "4 slot-hours",
    "4,200 slot-hours",
    "1 slot-hours",
    "0.01 slot-hours",
    "35 slot-seconds",
    "0 slot-seconds",
  ]);
});
