import i18next from "i18next";
import { beforeAll, expect, test } from "vitest";

import { showTexts } from "../../testing/texts";
import { type Columns, gapsOf } from "../../lib/series/series";
import { extentText, footText, nonFiniteText, type Shown, spokenText } from "./chartWords";
import { lay, type Line } from "./lines";

beforeAll(() => showTexts("en"));
const { t } = i18next;

function columnsOf(name: string, step: number[], bucketSteps = 1, value = (at: number) => at): Columns {
  const of = (list: number[]): Float64Array => Float64Array.from(list);
  const values = of(step.map(value));
  return {
    name,
    rank: 0,
    bucketSteps,
    numPoints: step.length * bucketSteps,
    step: of(step),
    timeMs: of(step),
    min: values,
    max: values,
    mean: values,
    last: values,
    count: of(step.map(() => bucketSteps)),
  };
}
const line = (columns: Columns): Line => ({ key: columns.name, label: "loss", columns, color: 0 });
const nothing: Shown = {
  lines: [],
  all: [],
  hidden: new Set(),
  laid: null,
  metric: "train/loss",
  x: "step",
  xName: "Step",
  zone: "utc",
  t,
};
const every = (by: number, num: number): number[] => Array.from({ length: num }, (_, i) => i * by);
const without = (all: number[], ...gone: number[]): number[] => all.filter((step) => !gone.includes(step));
const text = (...args: Parameters<typeof columnsOf>): string => extentText([line(columnsOf(...args))], t);

test("a chart says how many of the steps it has, and where the first is missing", () => {
  expect(text("train/loss", without(every(1, 22), 4, 5, 11, 15, 16))).toBe("17 of 22 steps, first gap after step 3");
  expect(text("train/loss", without(every(10, 20), 50))).toBe(
    "19 of 20 values at one per 10 steps, first gap after step 40",
  );
  expect(text("train/loss", without(every(8, 30), 80, 88), 8)).toBe(
    "224 points in buckets of 8 steps, band: min–max · 2 buckets without values, the first after step 72",
  );
  expect(text("time/step_ms", without(every(1, 22), 4, 5, 11, 15, 16))).toBe(
    "17 points from 22 steps; each is the mean of the steps measured since the previous point",
  );
});

test("a script that logs rarely, in its own rhythm or another one later misses nothing", () => {
  for (const steps of [
    every(10, 30),
    [...every(1, 200), ...every(10, 5).map((step) => 210 + step)],
    [...every(10, 10), ...every(10, 10).map((step) => 97 + step)],
    [1, 5, 6, 20, 21, 50, 90, 200, 201],
    every(3, 5),
  ])
    expect(gapsOf(columnsOf("train/loss", steps)), String(steps)).toBeNull();
  expect(text("train/loss", every(10, 30))).toBe("30 points");
});

test("values that are not finite are counted", () => {
  const shown = (columns: Columns): Shown => ({ ...nothing, lines: [line(columns)] });
  const bad = (at: number): number => (at === 3 || at === 7 ? Number.NaN : at);
  expect(nonFiniteText(shown(columnsOf("train/loss", every(1, 20), 1, bad)))).toBe(
    "NaN at step 3, 2 of 20 values not finite",
  );
  expect(nonFiniteText(shown(columnsOf("train/loss", every(1, 5), 1, bad)))).toBe("NaN at step 3");
  expect(nonFiniteText(shown(columnsOf("train/loss", every(1, 3))))).toBeNull();
});

test("at the cursor a mean says of how many points it is", () => {
  const lines = [line(columnsOf("train/loss", every(4, 10), 4))];
  const view = { x: "step" as const, logX: false, logY: false, smoothing: 0, clip: false };
  const laid = lay(lines, view);
  const shown: Shown = { ...nothing, lines, all: lines, laid };
  expect(spokenText(shown, 9)).toBe("Step 9: loss 8 (n=4)");
});

test("the foot tells of smoothing where a line is smoothed, and leaves long names to the legend", () => {
  const view = { x: "step", logX: false, logY: false, smoothing: 0.9, clip: false } as const;
  const foot = (...lines: Line[]): string => footText({ ...nothing, lines, laid: lay(lines, view) });
  const noisy = line(columnsOf("train/loss", every(1, 200), 1, (at) => Math.sin(at * at)));
  expect(foot(noisy)).toBe("200 points · smoothing 0.9");
  expect(foot(line(columnsOf("lr", every(1, 200), 1, (at) => at / 200)))).toBe("200 points");
  const short = { ...noisy, label: "val" };
  expect(foot(noisy, short)).toBe("points: loss 200 · val 200 · smoothing 0.9");
  expect(foot(noisy, { ...short, label: "a run with a long name" })).toBe("points: 200 · 200 · smoothing 0.9");
});
