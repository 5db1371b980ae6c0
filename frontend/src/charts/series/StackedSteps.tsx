import type { TFunction } from "i18next";
import { useCallback, useRef } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";

import * as format from "../../lib/format";
import { LEAST_SHARE, STEP_PARTS, type StepPart } from "../../lib/series/perf";
import { type Columns, indexAt } from "../../lib/series/series";
import css from "../chart.module.css";
import { type Palette, readPalette } from "../palette";
import type { SeriesStore } from "./SeriesStore";
import { type Drawing, usePlot } from "./usePlot";

const HEIGHT = 240;
/** Bars of single steps far apart would be thinner than a line. In CSS pixels. */
const LEAST_BAR = 6;
const MOST_WIDENED = 40;

interface Parts {
  x: number[];
  values: Record<StepPart, number[]>;
}

/** Mean step time per bucket of steps, cut into its parts. */
export function StackedSteps({ store, title, syncKey }: { store: SeriesStore; title: string; syncKey?: string }) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const figure = useRef<HTMLElement>(null);
  const current = useRef<Parts>({
    x: [],
    values: {} as Record<StepPart, number[]>,
  });

  const build = (): Drawing | null => {
    current.current = stepParts(store);
    const { x, values } = current.current;
    writeLegend(null);
    if (figure.current) {
      figure.current.dataset["lastStep"] = String(x.at(-1) ?? "");
      figure.current.dataset["numPoints"] = String(x.length);
    }
    if (x.length === 0) return null;
    // Drawn from the top of the stack down, each bar over the one before.
    const sums = x.map(() => 0);
    const stacked = STEP_PARTS.map((part) => {
      values[part].forEach((value, i) => {
        sums[i] = (sums[i] ?? 0) + value;
      });
      return [...sums];
    });
    return {
      signature: `${syncKey}.${x.length <= MOST_WIDENED}`,
      data: [x, ...stacked.toReversed()] as uPlot.AlignedData,
      options: (palette, width) =>
        optionsOf(
          palette,
          width,
          () => current.current.x.length,
          x.length <= MOST_WIDENED ? LEAST_BAR : 1,
          (idx) => writeLegend(idx),
        ),
    };
  };

  const writeLegend = (idx: number | null): void => {
    if (legend.current) writeKeys(legend.current, current.current, idx, t);
  };

  const subscribe = useCallback((listener: () => void) => store.subscribe(listener), [store]);
  usePlot(box, build, subscribe);
  return (
    <figure className={css["figure"]} ref={figure} aria-label={title} data-testid="chart-step-breakdown">
      <div className={css["head"]}>
        <h3>{title}</h3>
        <span className="dim">{t("perf.perStep")}</span>
      </div>
      <div className={css["legend"]} ref={legend} />
      <div className={css["plot"]} ref={box} style={{ height: HEIGHT }} />
    </figure>
  );
}

/** The parts of the steps of rank 0, by the first step of each bucket. */
function stepParts(store: SeriesStore): Parts {
  const columns = new Map<StepPart, Columns>();
  for (const part of STEP_PARTS) {
    const found = store.get(part)[0];
    if (found && found.step.length > 0) columns.set(part, found);
  }
  const base = columns.get("time/forward_ms") ?? [...columns.values()][0];
  const x: number[] = [];
  const values = {} as Record<StepPart, number[]>;
  for (const part of STEP_PARTS) values[part] = [];
  if (base) {
    for (const step of base.step) {
      const width = Math.max(1, base.bucketSteps);
      x.push(Math.floor(step / width) * width);
      for (const part of STEP_PARTS) {
        const series = columns.get(part);
        const i = series ? indexAt(series.step, step) : -1;
        const value = i < 0 ? 0 : (series?.mean[i] ?? 0);
        values[part].push(Number.isFinite(value) ? Math.max(0, value) : 0);
      }
    }
  }
  return { x, values };
}

function optionsOf(
  palette: Palette,
  width: number,
  numBuckets: () => number,
  leastBar: number,
  onCursor: (idx: number | null) => void,
): uPlot.Options {
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [6, 20, 0, 0], // the last step has room for its digits
    scales: {
      x: {
        time: false,
        range: (_u, min, max) => [min, max + Math.max(1, (max - min) / Math.max(1, numBuckets() - 1))],
      },
      y: { range: (_u, _min, max) => [0, (max || 1) * 1.05] },
    },
    series: [
      {},
      ...[...STEP_PARTS].toReversed().map((part) => ({
        fill: palette.parts[part],
        width: 0, // without a stroke: an outline would shine through between stacked bars
        points: { show: false },
        paths: uPlot.paths.bars?.({ size: [0.92, 48, leastBar], align: 1 }),
      })),
    ],
    axes: [
      {
        stroke: palette.text2,
        font: `11px "Inter Variable", system-ui`,
        grid: { show: false },
        ticks: { show: false },
        size: 24,
        gap: 4,
        space: 70,
        values: (_u, ticks) => ticks.map((v) => (Number.isInteger(v) ? format.si(v, "", 3).replace(" ", "") : "")),
      },
      {
        stroke: palette.text2,
        font: `11px "Inter Variable", system-ui`,
        grid: { stroke: palette.grid, width: 1 },
        ticks: { show: false },
        size: 56,
        gap: 4,
        space: 34,
        values: (_u, ticks) => ticks.map((v) => `${format.num(v, 3)}`),
      },
    ],
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    hooks: { setCursor: [(u: uPlot) => onCursor(u.cursor.idx ?? null)] },
  };
}

/** The keys of the parts with their times in a bucket; null: in the last one. */
function writeKeys(element: HTMLElement, { x, values }: Parts, idx: number | null, t: TFunction): void {
  const palette = readPalette();
  const i = idx ?? x.length - 1;
  const tallest = Math.max(
    0,
    ...x.map((_, at) => STEP_PARTS.reduce((sum, part) => sum + (values[part]?.[at] ?? 0), 0)),
  );
  element.replaceChildren();
  if (i >= 0) {
    const which = document.createElement("span");
    which.textContent = idx === null ? t("perf.lastBar") : t("perf.barAt", { step: format.count(x[i]) });
    element.append(which);
  }
  for (const part of STEP_PARTS) {
    if (!values[part]?.some((value) => value > tallest * LEAST_SHARE)) continue;
    const key = document.createElement("span");
    key.className = css["key"] ?? "";
    const mark = document.createElement("i");
    mark.dataset["square"] = "";
    mark.style.background = palette.parts[part] ?? "";
    const value = document.createElement("b");
    value.textContent = i < 0 ? format.MISSING : format.ms(values[part]?.[i]);
    key.append(mark, t(`part.${part}`), value);
    element.append(key);
  }
}
