import { expect, test } from "vitest";

import { matching, named } from "./commandFilter";

const entries = [
  { id: "a", label: "Checkpoints" },
  { id: "b", label: "val/loss" },
  { id: "c", label: "Retention", description: "Settings", keywords: "losses" },
  { id: "d", label: "loss curve" },
];
const ids = (query: string, limit = 9): string[] => matching(entries, query, limit).map(({ id }) => id);

test("beginnings come before beginnings of words, and these before what is somewhere", () => {
  expect(ids("loss")).toEqual(["d", "b", "c"]);
  expect(ids("LOSS", 1)).toEqual(["d"]);
  expect(ids("settings ret")).toEqual(["c"]);
  expect(ids("nowhere")).toEqual([]);
  expect(ids(" ")).toEqual(["a", "b", "c", "d"]);
});

test("numbers name experiments and trials as the command line does", () => {
  expect(named("4")).toEqual({ experiment: 4, trialNo: null });
  expect(named(" #4 ")).toEqual({ experiment: 4, trialNo: null });
  expect(named("4.2")).toEqual({ experiment: 4, trialNo: 2 });
  expect(named("digits-asha.12")).toEqual({ experiment: "digits-asha", trialNo: 12 });
  for (const words of ["digits", "0", "", ".", "4.", ".2", "1e3"]) expect(named(words)).toBeNull();
});
