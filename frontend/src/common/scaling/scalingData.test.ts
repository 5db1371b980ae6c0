import { expect, test } from "vitest";

import { exportAddress, type ScalingReport } from "../../api/scaling";
import { tableCsv } from "../../charts/Figure";
import { resolved, toPicture } from "../../charts/svgFile";
import { askedAs, askedIn, curves, efficiencyTop, numbersIn, sizesIn, underway, usualSizes } from "./scalingData";

const estimate = (value: number, spread: number | null = null) => ({
  value,
  low: spread === null ? null : value - spread,
  high: spread === null ? null : value + spread,
  n: spread === null ? 1 : 3,
  is_determined: spread !== null && 2 * spread <= value,
});
const size = (slots: number, speedup: number): ScalingReport["sizes"][number] => ({
  slots,
  num_runs: 3,
  num_steps: 180,
  samples_per_slot: 32,
  step_ms: estimate(10),
  samples_per_s: estimate(100 * speedup),
  speedup: estimate(speedup, 0.1),
  efficiency: estimate(speedup / slots, 0.1),
  parts_ms: {},
  hidden_ms: 0,
});
const predicted = (
  slots: number,
  rate: number,
  network = "measured",
  spread: number | null = 10,
): ScalingReport["predictions"][number] => ({
  slots,
  network,
  samples_per_slot: 32,
  step_ms: estimate(10),
  compute_ms: 8,
  communication_ms: 2,
  exposed_ms: 1,
  other_ms: 1,
  samples_per_s: estimate(rate, spread),
  efficiency: rate / slots / 100,
  doubt: "",
  doubt_parts: [],
});

test("predictions stand in the figure's own unit, with their interval, a curve per network", () => {
  const report = {
    sizes: [size(1, 1), size(2, 1.8)],
    predictions: [predicted(4, 320), predicted(4, 200, "100 Mbit/s", null), { ...predicted(8, 1), efficiency: null }],
  };
  const speedup = curves(report, "speedup");
  expect(speedup.map((curve) => curve.network)).toEqual(["", "measured", "100 Mbit/s"]);
  expect(speedup[0]?.dots.map((dot) => [dot.slots, dot.value, dot.n])).toEqual([
    [1, 1, 3],
    [2, 1.8, 3],
  ]);
  expect(speedup[1]?.dots).toHaveLength(1); // one without an efficiency has no place
  expect(speedup[1]?.dots[0]).toMatchObject({ slots: 4, n: null });
  expect(speedup[1]?.dots[0]?.value).toBeCloseTo(3.2);
  expect(speedup[1]?.dots[0]?.low).toBeCloseTo(3.1);
  expect(speedup[2]?.dots[0]?.high).toBeNull();
  const efficiency = curves(report, "efficiency");
  expect(efficiency[1]?.dots[0]?.value).toBeCloseTo(0.8);
  expect(efficiency[1]?.dots[0]?.high).toBeCloseTo(0.825);
  expect(curves({ sizes: [], predictions: [] }, "speedup")).toEqual([]);
});

test("a prediction that is doubted is no curve, and a wide interval no whisker", () => {
  const wide = { ...size(2, 1.8), efficiency: { value: 0.9, low: 0.2, high: 4, n: 2, is_determined: false } };
  const found = curves(
    { sizes: [size(1, 1), wide], predictions: [{ ...predicted(4, 320), doubt: "One run." }] },
    "efficiency",
  );
  expect(found.map((curve) => curve.network)).toEqual([""]);
  expect(found[0]?.dots[1]).toEqual({ slots: 2, value: 0.9, low: null, high: null, n: 2 });
});

test("the efficiency axis ends where figures do, not at 400 %", () => {
  const dot = (value: number, high: number | null) => ({ slots: 2, value, low: null, high, n: 3 });
  expect(efficiencyTop([dot(0.9, 0.95)])).toBeCloseTo(1.05);
  expect(efficiencyTop([dot(0.9, 1.1)])).toBeCloseTo(1.155);
  expect(efficiencyTop([dot(0.9, 4)])).toBeCloseTo(1.3125);
  expect(efficiencyTop([dot(1.6, 1.7)])).toBeCloseTo(1.785);
});

test("the run under way is the first that has neither a figure nor a problem", () => {
  const point = (slots: number, step_ms: number | null, problem = "") => ({
    slots,
    repeat: 1,
    experiment_id: 1,
    state: null,
    step_ms,
    samples_per_s: null,
    num_steps: 0,
    problem,
  });
  expect(underway({ points: [point(1, 3), point(2, null, "It failed."), point(4, null), point(8, null)] })?.slots).toBe(
    4,
  );
  expect(underway({ points: [point(1, 3), point(2, null, "It failed.")] })).toBeUndefined();
});

test("lists by comma", () => {
  expect(sizesIn("1, 2,4，8 2", 100)).toEqual([1, 2, 4, 8]);
  expect(sizesIn("", 100)).toEqual([]);
  for (const bad of ["1,x", "0", "-1", "1.5", "101", "1;2"]) expect(sizesIn(bad, 100), bad).toBeNull();
  expect(numbersIn("100, 2.5")).toEqual([100, 2.5]);
  for (const bad of ["0", "-5", "fast", "Infinity"]) expect(numbersIn(bad), bad).toBeNull();
  expect(usualSizes(1)).toEqual([1, 2]);
  expect(usualSizes(8)).toEqual([1, 2, 4, 8]);
  expect(usualSizes(6)).toEqual([1, 2, 4, 6]);
});

test("what is asked for goes through the address and into the export", () => {
  const search = askedAs("4, 16", { bandwidth: "1000", latency: 20, measured: 100 });
  expect(search).toEqual({ slots: "4,16", bandwidth: "1000", latency: 20, measured: 100 });
  expect(askedIn(search)).toEqual({
    slots: [4, 16],
    bandwidth_mbit_per_s: [1000],
    latency_us: 20,
    measured_bandwidth_mbit_per_s: 100,
  });
  expect(askedIn(askedAs("", { bandwidth: "", latency: "", measured: "" }))).toEqual({});
  expect(askedIn({ slots: "many", latency: 5 })).toEqual({}); // a latency is of other networks
  expect(exportAddress(3, "csv", askedIn(search))).toBe(
    "/api/v1/scaling-reports/3/export?format=csv&slots=4&slots=16&bandwidth_mbit_per_s=1000&latency_us=20" +
      "&measured_bandwidth_mbit_per_s=100",
  );
});

test("a figure's table as a file: an empty cell is not known", () => {
  expect(
    tableCsv({
      head: ["a,b", "n"],
      rows: [
        [
          { text: "1 ms", raw: 1 },
          { text: "–", raw: null },
        ],
      ],
    }),
  ).toBe('"a,b",n\n1,\n');
});

test("a picture has no name that only the page knows", () => {
  expect(resolved('fill="var(--bg)" stroke="var(--none)"', (name) => (name === "--bg" ? " #fff" : ""))).toBe(
    'fill="#fff" stroke="#888888"',
  );
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", "300");
  svg.setAttribute("height", "100");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("fill", "var(--series-0)");
  svg.append(rect);
  const picture = toPicture(svg, "a < b", [
    { label: "x & y", color: "var(--series-1)", shape: "dashed" },
    { label: "z".repeat(60), color: "red", shape: "square" },
  ]);
  expect([picture.width, picture.height]).toEqual([300, 144]);
  expect(picture.text).not.toContain("var(");
  const read = new DOMParser().parseFromString(picture.text, "image/svg+xml");
  expect(read.querySelector("parsererror")).toBeNull();
  expect([...read.querySelectorAll("text")].map((node) => node.textContent)).toEqual(["a < b", "x & y"]);
});
