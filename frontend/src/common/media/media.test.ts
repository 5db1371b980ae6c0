import { expect, test } from "vitest";

import type { MediaSeries } from "../../api/queries";
import { areaOf, named, pointsOf, stepAt, stepsOf, together } from "./mediaData";
import { optionOf, plotOf, spotText, tableOf } from "./plotly";

const series = (name: string, steps: number[]) => ({ name, kind: "image", steps }) as MediaSeries;
const theme = { series: ["#000001", "#000002"], scale: ["#000003", "#000004"], line: "", text2: "", grid: "" } as never;
const figure = (data: unknown[], layout: unknown = {}): string => JSON.stringify({ data, layout });

test("a name is shown at the chosen step, or at its last one before", () => {
  const found = [series("a", [0, 10, 20]), series("b", [5, 10])];
  expect(stepsOf(found)).toEqual([0, 5, 10, 20]);
  expect([-1, 0, 4, 10, 15, 99].map((step) => stepAt([0, 5, 10], step))).toEqual([null, 0, 0, 10, 10, 10]);
  expect(stepAt([], 3)).toBeNull();
  expect(named([...found, series("Val/a", [1])], " A").map((one) => one.name)).toEqual(["a", "Val/a"]);
  expect(together([found, [series("a", [7]), { ...series("a", [7]), kind: "text" }]])).toEqual([
    { name: "a", kind: "image" },
    { name: "a", kind: "text" },
    { name: "b", kind: "image" },
  ]);
});

test("points without a value are left out of a curve, and of its area", () => {
  const points = pointsOf({ recall: [1, 0.5, 0], precision: [0.5, 1, "NaN"], thresholds: [] });
  expect(points).toEqual([
    [1, 0.5],
    [0.5, 1],
  ]);
  expect(areaOf(points)).toBeCloseTo(0.375);
});

test("lines, dots and bars of plotly are drawn, with numbers that it keeps as bytes", () => {
  const bytes = btoa(String.fromCharCode(...new Uint8Array(new Float64Array([1, 2.5]).buffer)));
  const plot = plotOf(
    figure(
      [
        { type: "scatter", name: "loss", x: [1, 2], y: { dtype: "f8", bdata: bytes } },
        { mode: "markers", x: ["a"], y: [null] },
        { type: "pie", values: [1] },
      ],
      { title: { text: "<b>Loss</b>" }, xaxis: { title: { text: "step" } }, yaxis: { type: "log" } },
    ),
  );
  expect(plot).toMatchObject({ title: "Loss", xTitle: "step", yLog: true, left: ["pie"] });
  expect(plot?.traces.map((trace) => [trace.kind, trace.name, trace.y])).toEqual([
    ["line", "loss", [1, 2.5]],
    ["dots", "2", [null]],
  ]);
  if (!plot) throw new Error("no plot");
  expect(optionOf(plot, theme)).toMatchObject({
    xAxis: { type: "category" },
    yAxis: { type: "log" },
    series: [
      {
        type: "line",
        data: [
          ["1", 1],
          ["2", 2.5],
        ],
      },
      { type: "scatter" },
    ],
  });
  expect(spotText(plot, 0, 1)).toBe("loss\n2: 2.5");
  expect(tableOf(plot).rows[1]?.map((cell) => cell.raw)).toEqual(["loss", 2, 2.5]);
});

test("a heat map is drawn alone, and says its cells", () => {
  const plot = plotOf(
    figure([
      {
        type: "heatmap",
        z: [
          [1, 2],
          [3, null],
        ],
        x: ["u", "v"],
      },
      { type: "scatter", y: [1] },
    ]),
  );
  if (!plot) throw new Error("no plot");
  expect(plot.left).toEqual(["scatter"]);
  const option = optionOf(plot, theme);
  expect(option).toMatchObject({
    visualMap: { min: 1, max: 3 },
    series: [
      {
        data: [
          [0, 0, 1],
          [1, 0, 2],
          [0, 1, 3],
        ],
      },
    ],
  });
  expect(spotText(plot, 0, 2)).toBe("u, 1: 3");
  expect(tableOf(plot).head).toEqual(["", "u", "v"]);
});

test("what is not drawn is named, and what is no figure is none", () => {
  expect(plotOf(figure([{ type: "scatter3d" }, { type: "bar", orientation: "h", x: [1] }]))).toMatchObject({
    traces: [],
    left: ["scatter3d", "bar"],
  });
  for (const text of ["{", "[]", "{}", '{"data": 3}', "null"]) expect(plotOf(text)).toBeNull();
});
