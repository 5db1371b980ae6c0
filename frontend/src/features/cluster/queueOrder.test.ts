// @vitest-environment node
import { expect, test } from "vitest";

import type { QueueItem } from "../../api/queries";
import { lanesOf, placesOf } from "./queueOrder";

const item = (trial_id: number, patch: Partial<QueueItem> = {}): QueueItem => ({ trial_id, pool: "default", slot_type: "cpu", priority: 50, project: "a", ...patch }) as QueueItem;
const neighbours = (items: QueueItem[]) => [...placesOf(items)].map(([id, at]) => [at.before?.trial_id ?? null, id, at.after?.trial_id ?? null]);

test("each has its neighbours among equals, over those in between", () => {
  expect(neighbours([item(1), item(2, { project: "b" }), item(3), item(4)])).toEqual([
    [null, 1, 3],
    [null, 2, null],
    [1, 3, 4],
    [3, 4, null],
  ]);
});

test("another priority, pool, slot type or project is no equal", () => {
  const alone = [item(1), item(2, { priority: 60 }), item(3, { pool: "p" }), item(4, { slot_type: "cuda" }), item(5, { project: "b" })];
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
