// @vitest-environment node
import { expect, test } from "vitest";

import type { Slot } from "../../../api/queries";
import { devicesOf, heldBy, versionsOf } from "./nodeUse";

const slot = (index: number, patch: Partial<Slot> = {}): Slot =>
  ({
    index,
    slot_type: "cuda",
    name: "H100",
    memory_bytes: 80,
    allocation_id: null,
    experiment_id: null,
    experiment_name: null,
    trial_id: null,
    rank: null,
    ...patch,
  }) as Slot;
const busy = (index: number, trial: number, rank: number | null): Slot =>
  slot(index, { trial_id: trial, experiment_id: 7, experiment_name: "e", rank });

test("slots are put together by trial, whatever their order", () => {
  const held = heldBy({ slots: [busy(3, 12, 5), slot(2), busy(1, 11, 0), busy(0, 12, 4)] });
  expect(held.map((entry) => [entry.trialId, entry.slots, entry.ranks])).toEqual([
    [12, [0, 3], [4, 5]],
    [11, [1], [0]],
  ]);
  expect(heldBy({ slots: [slot(0)] })).toEqual([]);
});

test("a rank that is not known yet is no rank", () => {
  expect(heldBy({ slots: [busy(0, 1, null)] })[0]?.ranks).toEqual([]);
});

test("equal devices are counted together", () => {
  expect(devicesOf({ slots: [slot(0), slot(1), slot(2, { name: "" })] }).map((d) => `${d.count} ${d.name}`)).toEqual([
    "2 H100",
    "1 cuda",
  ]);
});

test("versions that are not known are left out", () => {
  expect(
    versionsOf({
      agent_version: "0.1.0",
      python_version: "3.12.1",
      torch_version: "",
      cuda_version: "",
      driver_version: "570.1",
    }),
  ).toEqual([
    ["agent", "0.1.0"],
    ["Python", "3.12.1"],
    ["driver", "570.1"],
  ]);
});
