import { expect, test } from "vitest";

import { heatGroups } from "./nodeHeat";

const node = {
  id: "n1",
  name: "a",
  pool: "default",
  state: "ONLINE",
  health: "ok",
  unavailable: null,
  num_slots: 8,
  num_slots_used: 6,
};

test("nodes are grouped by pool, with what of their slots is in use", () => {
  const groups = heatGroups([
    node,
    { ...node, id: "n2", name: "b", pool: "big", num_slots_used: 0 },
    { ...node, id: "n3", name: "c", health: "degraded", num_slots_used: 8 },
  ]);
  expect(groups.map(({ pool, online, used, slots }) => [pool, online, used, slots])).toEqual([
    ["big", 1, 0, 8],
    ["default", 2, 14, 16],
  ]);
  expect(groups[1]?.cells.map(({ share, trouble }) => [share, trouble])).toEqual([
    [0.75, null],
    [1, "warn"],
  ]);
});

test("a node that is not heard, or takes nothing, has no share and is not counted as free", () => {
  const [group] = heatGroups([
    { ...node, state: "LOST", unavailable: "lost" },
    { ...node, id: "n2", unavailable: "cordoned", num_slots_used: 0 },
    { ...node, id: "n3", unavailable: "draining", num_slots_used: 2 },
    { ...node, id: "n4", unavailable: "quarantined", health: "quarantined", num_slots_used: 0 },
  ]);
  expect(group?.cells.map(({ share, trouble }) => [share, trouble])).toEqual([
    [null, "bad"],
    [null, null],
    [0.25, null],
    [null, "warn"],
  ]);
  expect([group?.online, group?.slots]).toEqual([3, 24]);
});
