import { expect, test } from "vitest";

import type { ExperimentGroup } from "../../../api/queries";
import { ordered, statisticsOf } from "./groups";
import { readColumns } from "./tableColumns";

const group = (value: ExperimentGroup["value"], size: number, mean: number | null): ExperimentGroup => ({
  value,
  num_experiments: size,
  num_by_state: {},
  columns: { slots: { num_values: mean === null ? 0 : 1, mean, min: mean, max: mean } },
});
const GROUPS = [group("b", 1, 4), group(null, 3, 2), group("a", 2, null)];
const order = (by: string, down: boolean) => ordered(GROUPS, { by, down }).map(({ value }) => value);

test("groups are ordered by size, value or the mean of a column, those without one last", () => {
  expect(order("size", true)).toEqual([null, "a", "b"]);
  expect(order("value", false)).toEqual(["a", "b", null]);
  expect(order("value", true)).toEqual(["b", "a", null]);
  expect(order("slots", true)).toEqual(["b", null, "a"]);
});

test("statistics are of the numbers in the table, and of what most rows are judged by", () => {
  const items = ["val/loss", "train/loss", "val/loss"].map((name) => ({ headline: { name } }));
  expect(statisticsOf(readColumns("name,slots,hparam.lr"), "project", items)).toEqual([
    "metric.last.val/loss",
    "slots",
    "hparam.lr",
  ]);
  expect(statisticsOf(readColumns("name,best,hparam.lr"), "hparam.lr", items)).toEqual(["best"]);
  expect(statisticsOf(readColumns("name,slots"), "project", [{ headline: null }])).toEqual(["slots"]);
});
