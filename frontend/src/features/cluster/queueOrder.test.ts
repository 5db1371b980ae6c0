// @vitest-environment node
import { expect, test } from "vitest";

import type { QueueItem } from "../../api/queries";
import { lanesOf, moved, placesOf } from "./queueOrder";

const item = (trial_id: number, patch: Partial<QueueItem> = {}): QueueItem =>
  ({ trial_id, pool: "default", slot_type: "cpu", priority: 50, project: "a", ...patch }) as QueueItem;
const neighbours = (items: QueueItem[]) =>
  [...placesOf(items)].map(([id, at]) => [at.before?.trial_id ?? null, id, at.after?.trial_id ?? null]);

test("each has its neighbours among equals, over those in between", () => {
  expect(neighbours([item(1), item(2, { project: "b" }), item(3), item(4)])).toEqual([
    [null, 1, 3],
    [null, 2, null],
    [1, 3, 4],
    [3, 4, null],
  ]);
});

test("another priority, pool, slot type or project is no equal", () => {
  const alone = [
    item(1),
    item(2, { priority: 60 }),
    item(3, { pool: "p" }),
    item(4, { slot_type: "cuda" }),
    item(5, { project: "b" }),
  ];
  expect(neighbours(alone).every(([before, , after]) => before === null && after === null)).toBe(true);
  expect(placesOf([]).size).toBe(0);
});

test("a lane per pool and slot type, in the order of the queue", () => {
  const lanes = lanesOf([item(1, { slot_type: "cuda" }), item(2), item(3, { slot_type: "cuda" })]);
  expect(lanes.map((lane) => [lane.slotType, lane.items.map((i) => i.trial_id)])).toEqual([
    ["cuda", [1, 3]],
    ["cpu", [2]],
  ]);
});

const order = (items: readonly QueueItem[]) => items.map((i) => i.trial_id);

test("a move that is under way is shown where it will be", () => {
  const items = [
    item(1, { position: 1 }),
    item(2, { position: 2, project: "b" }),
    item(3, { position: 3 }),
    item(4, { position: 4 }),
  ];
  expect(order(moved(items, { trial_id: 4, before: { trial_id: 3 } }))).toEqual([1, 2, 4, 3]);
  expect(order(moved(items, { trial_id: 4, to: "front" }))).toEqual([4, 1, 2, 3]);
  expect(order(moved(items, { trial_id: 1, after: { trial_id: 3 } }))).toEqual([2, 3, 1, 4]);
  expect(order(moved(items, { trial_id: 1, to: "back" }))).toEqual([2, 3, 4, 1]);
  expect(moved(items, { trial_id: 4, to: "front" }).map((i) => i.position)).toEqual([1, 2, 3, 4]);
});

test("a move that the queue has granted already, or cannot know, changes nothing", () => {
  const items = [item(1), item(2, { project: "b" }), item(3)];
  for (const wish of [
    { trial_id: 1, before: { trial_id: 3 } },
    { trial_id: 3, after: { trial_id: 1 } },
    { trial_id: 1, to: "front" as const },
    { trial_id: 3, to: "back" as const },
    { trial_id: 9, to: "front" as const },
    { trial_id: 1, before: { trial_id: 9 } },
    { trial_id: 2, to: "back" as const },
  ]) {
    expect(moved(items, wish)).toBe(items);
  }
});

test("two moves, one right after the other, add up", () => {
  const items = [item(1), item(2), item(3)];
  const first = moved(items, { trial_id: 3, before: { trial_id: 2 } });
  expect(order(moved(first, { trial_id: 3, before: { trial_id: 1 } }))).toEqual([3, 1, 2]);
});
