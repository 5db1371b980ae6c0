// @vitest-environment node
import { expect, test } from "vitest";

import type { Search } from "../../../api/queries";
import type { Theme } from "../../../charts/EChart";
import { curvesOfRungs, epochsOf, standingOut } from "./learning";
import { ABSENT, type Axis, axes, metrics, placeOrAbsent, type Results } from "./searchData";
import { clouds, corners, kindOf, parallelOption, placeAxis, spotsOf, ticksOf, timeTicksOf } from "./searchOptions";

const theme = {
  text: "#111111",
  text2: "#222222",
  grid: "#333333",
  line: "#444444",
  bad: "#555555",
  bg: "#ffffff",
  series: ["#000001", "#000002", "#000003", "#000004", "#000005", "#000006"],
  parts: {},
  scale: ["#000001", "#000002"],
} as unknown as Theme;
const results = {
  metric_name: "val/loss",
  metric_goal: "min",
  parameters: [
    { name: "lr", kind: "number", log: true, choices: [] },
    { name: "momentum", kind: "number", log: false, choices: [] },
  ],
  id: [11, 12, 13],
  no: [1, 2, 3],
  state: ["COMPLETED", "STOPPED_EARLY", "FAILED"],
  metric: [0.5, 0.9, 0.2],
  step: [40, 10, 10],
  epoch: [4, null, 2],
  objectives: [],
  values: [
    [0.001, 0.01, 0.1],
    [0.5, null, 0.9],
  ],
} as unknown as Results;

test("ticks stand at round values and at choices; what has no value has a tick below", () => {
  const lr: Axis = { name: "lr", column: 0, log: true, choices: [], low: 1e-4, high: 1 };
  expect(ticksOf(lr).map((tick) => [tick.label, Math.round(tick.at * 100)])).toEqual([
    ["0.0001", 0],
    ["0.001", 25],
    ["0.01", 50],
    ["0.1", 75],
    ["1", 100],
  ]);
  const opt: Axis = { name: "opt", column: 1, log: false, choices: ["sgd", "adam", "lamb"], low: 0, high: 2 };
  const axis = placeAxis(ticksOf(opt), theme, { absent: true });
  expect(axis.axisLabel.customValues).toEqual([ABSENT, 0, 0.5, 1]);
  expect(axis.axisLabel.customValues.map(axis.axisLabel.formatter)).toEqual(["–", "sgd", "adam", "lamb"]);
  expect(axis.min).toBeLessThan(ABSENT);
});

test("ticks of a time stand at round minutes and hours", () => {
  const over = (high: number) => timeTicksOf({ name: "", column: -1, log: false, choices: [], low: 0, high });
  expect(over(2.1).map((tick) => tick.label)).toEqual(["0 s", "1 s", "2 s"]);
  expect(over(50).map((tick) => tick.label)).toEqual(["0 s", "15 s", "30 s", "45 s"]);
  expect(over(4000).map((tick) => tick.label)).toEqual(["0 s", "30 min", "1 h"]);
  expect(over(400_000).map((tick) => tick.label)).toEqual(["0 s", "2 d", "4 d"]);
});

test("points are told apart by what became of their trials, and the keyboard passes over those not brushed", () => {
  const points = [0, 1, 2].map((index) => ({ index, x: 1 - index / 2, y: index }));
  const all = clouds(points, results, null);
  expect(all.map((cloud) => cloud.kind)).toEqual(["stopped", "failed", "completed"]);
  expect(spotsOf(all).map((spot) => all[spot.series]?.points[spot.index]?.index)).toEqual([2, 1, 0]);
  const some = clouds(points, results, new Set([0]));
  expect(some.map((cloud) => [cloud.kind, cloud.points.length])).toEqual([
    ["outside", 2],
    ["completed", 1],
  ]);
  expect(spotsOf(some)).toHaveLength(1);
  expect(kindOf("PAUSED")).toBe("running");
});

test("the best so far keeps its corners and its end", () => {
  expect(
    corners([
      { x: 0, y: 3 },
      { x: 1, y: 3 },
      { x: 2, y: 1 },
      { x: 3, y: 1 },
      { x: 4, y: 1 },
    ]),
  ).toEqual([
    [0, 3],
    [2, 1],
    [4, 1],
  ]);
});

test("a line per trial, in places; an axis without a value in some trial goes further down", () => {
  const all = axes(results);
  const metric = metrics(results);
  const lines = [0, 1].map((index) => all.map((axis) => placeOrAbsent(axis, results, metric, index)));
  expect(lines[1]?.[1]).toBe(ABSENT);
  const option = parallelOption(
    theme,
    all.map((axis) => ({ axis, flipped: axis.name === "lr", absent: axis.name === "momentum" })),
    lines,
    [0.25, 1],
  ) as {
    parallelAxis: { id: string; inverse: boolean; min: number }[];
    visualMap: { dimension: number; inRange: { color: string[] } };
    series: { data: { value: number[] }[] }[];
  };
  expect(option.parallelAxis.map((axis) => [axis.id, axis.inverse, axis.min < ABSENT])).toEqual([
    ["lr", true, false],
    ["momentum", false, true],
    ["val/loss", false, false],
  ]);
  // The colour is of a value behind those of the axes.
  expect([option.visualMap.dimension, option.visualMap.inRange.color]).toEqual([3, ["#000001", "#000002"]]);
  expect(option.series[0]?.data.map(({ value }) => [value.length, value[3]])).toEqual([
    [4, 0.25],
    [4, 1],
  ]);
});

test("curves: the best stand out whether stopped or not, epochs grow with steps, and rungs stand in where nothing was logged", () => {
  expect([...standingOut(results)]).toEqual([13, 11, 12]);
  expect([...epochsOf(results)].map(([id, along]) => [id, along.growing?.value])).toEqual([
    [11, [4]],
    [13, [2]],
  ]);
  const trial = (no: number, metric: number | "NaN" | null) => ({
    trial_id: 10 + no,
    trial_no: no,
    metric,
    promoted: false,
    stopped: false,
  });
  const search = {
    metric_name: "val/loss",
    rungs: [
      { units: 3, trials: [trial(1, 0.5), trial(2, null)] },
      { units: 1, trials: [trial(1, 0.7)] },
    ],
  } as unknown as Search;
  const [one, ...rest] = curvesOfRungs(search);
  expect(rest).toEqual([]);
  expect([one?.trialId, [...(one?.columns.step ?? [])], [...(one?.columns.mean ?? [])]]).toEqual([
    11,
    [1, 3],
    [0.7, 0.5],
  ]);
});
