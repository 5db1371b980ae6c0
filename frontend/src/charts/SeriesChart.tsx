import { ActionIcon, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconChartLine, IconTable } from "@tabler/icons-react";
import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from "react";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";

import * as format from "../lib/format";
import { alignTo, type Cell, type Columns, indexAt, logTicks, nonFinite, smooth, unionSteps } from "../lib/series";
import css from "./chart.module.css";
import { alpha, lineStyle, type Palette, readPalette } from "./palette";
import { type Drawing, usePlot } from "./usePlot";

/** One curve: its points are read when drawing, never kept in state. */
export interface Line {
  key: string;
  label: string;
  columns: Columns;
  /** Position in the palette. */
  color: number;
  /** Drawn thin and pale (many trials, stopped ones). */
  faint?: boolean;
}

export interface Source {
  lines: () => Line[];
  subscribe: (listener: () => void) => () => void;
  restarts?: () => number[];
  range?: () => { from?: number; to?: number };
  error?: () => Error | null;
  /** True once an answer came, even an empty one. */
  ready: () => boolean;
}

interface Props {
  id: string;
  title: string;
  /** Its name decides unit and axis format. */
  metric: string;
  source: Source;
  log?: boolean;
  smoothing?: number;
  syncKey?: string;
  height?: number;
  xLabel?: string;
  onZoom?: (range: { from: number; to: number } | null) => void;
}

const MAX_KEYS = 6;
const TABLE_ROWS = 200;
const DOTS_MAX = 30;

/** Few points are shown as such: a single one has no line. */
const hasDots = (line: Line): boolean => !line.faint && line.columns.step.length <= DOTS_MAX;

export function SeriesChart({ id, title, metric, source, log = false, smoothing = 0, syncKey, height = 210, xLabel, onZoom }: Props) {
  const { t } = useTranslation();
  const figure = useRef<HTMLElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const foot = useRef<HTMLSpanElement>(null);
  const [table, setTable] = useState(false);
  // Words beside the chart; set only when they change, not per point.
  const [note, setNote] = useState<{ kind: "wait" | "empty" | "error" | null; bad: string | null }>({ kind: "wait", bad: null });
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const drawn = useRef<Line[]>([]);

  const build = (): Drawing | null => {
    const lines = source.lines().filter((line) => line.columns.step.length > 0);
    drawn.current = lines;
    const restarts = source.restarts?.() ?? [];
    const range = source.range?.() ?? {};
    describe(lines);
    if (lines.length === 0) return null;
    const x = unionSteps(lines.map((line) => line.columns));
    const smoothed = smoothing > 0;
    const data: (Float64Array | Cell[])[] = [x];
    const bands: boolean[] = [];
    for (const { columns, faint } of lines) {
      const values = smoothed ? smooth(columns.step, columns.mean, smoothing) : columns.mean;
      data.push(alignTo(x, columns.step, values, log));
      const band = !faint && !smoothed && columns.bucketSteps > 1;
      bands.push(band);
      if (smoothed) data.push(alignTo(x, columns.step, columns.mean, log));
      else if (band) data.push(alignTo(x, columns.step, columns.max, log), alignTo(x, columns.step, columns.min, log));
    }
    const signature = JSON.stringify([lines.map((l) => [l.key, l.color, l.faint, hasDots(l)]), bands, smoothed, log, height, metric, syncKey, restarts.length, xLabel]);
    return {
      signature,
      data: data as unknown as uPlot.AlignedData,
      options: (palette, width) =>
        makeOptions({ palette, width, height, lines, bands, smoothed, log, metric, syncKey, onZoom: (r) => zoom.current?.(r), range: () => source.range?.() ?? {}, restarts: () => source.restarts?.() ?? [], drawn: () => drawn.current, onCursor: (idx) => writeLegend(idx) }),
      after: (plot) => {
        const root = figure.current;
        if (!root) return;
        const last = Math.max(...lines.map((line) => line.columns.step.at(-1) ?? 0));
        root.dataset["lastStep"] = String(last);
        root.dataset["numPoints"] = String(lines.reduce((sum, line) => sum + line.columns.numPoints, 0));
        root.dataset["numSeries"] = String(lines.length);
        root.dataset["restarts"] = restarts.join(",");
        root.dataset["from"] = String(range.from ?? "");
        root.dataset["drawnAt"] = String(Date.now());
        writeLegend(plot.cursor.idx ?? null);
      },
    };
  };

  const describe = (lines: Line[]): void => {
    const error = source.error?.() ?? null;
    const kind = lines.length > 0 ? null : error ? "error" : source.ready() ? "empty" : "wait";
    const marks = lines.flatMap((line) => nonFinite(line.columns));
    const first = marks.toSorted((a, b) => a.step - b.step)[0];
    const bad = first ? t("chart.nonFinite", { kind: first.kind, step: format.count(first.step) }) : null;
    setNote((before) => (before.kind === kind && before.bad === bad ? before : { kind, bad }));
    if (!figure.current) return;
    const main = lines[0];
    const values = main ? [...main.columns.mean].filter(Number.isFinite) : [];
    figure.current.setAttribute(
      "aria-label",
      main && values.length > 0
        ? t("chart.summary", {
            title,
            points: format.count(main.columns.numPoints),
            first: format.metric(metric, values[0]),
            last: format.metric(metric, values.at(-1)),
            step: format.count(main.columns.step.at(-1)),
          })
        : title,
    );
    if (foot.current) {
      const coarse = Math.max(...lines.map((line) => line.columns.bucketSteps), 1);
      foot.current.textContent =
        lines.length === 0
          ? ""
          : coarse > 1
            ? t(smoothing > 0 || main?.faint ? "chart.bucketsOnly" : "chart.buckets", { n: format.count(main?.columns.step.length), steps: format.count(coarse) })
            : pointsText(lines, t);
    }
  };

  const writeLegend = (idx: number | null): void => {
    const element = legend.current;
    if (!element) return;
    const lines = drawn.current;
    const palette = readPalette();
    const at = idx === null ? null : (plot.current?.data[0][idx] ?? null);
    element.replaceChildren();
    for (const line of lines.slice(0, MAX_KEYS)) {
      const key = document.createElement("span");
      key.className = css["key"] ?? "";
      const mark = document.createElement("i");
      const style = lineStyle(line.color, palette);
      mark.style.borderTopColor = style.stroke;
      mark.style.borderTopStyle = style.dash ? "dashed" : "solid";
      const value = document.createElement("b");
      const where = at === null ? line.columns.step.length - 1 : indexAt(line.columns.step, at);
      value.textContent = where < 0 ? format.MISSING : format.metric(metric, line.columns.mean[where] as number);
      key.append(mark, line.label, value);
      key.title = line.label;
      element.append(key);
    }
    if (lines.length > MAX_KEYS) element.append(t("chart.moreLines", { n: lines.length - MAX_KEYS }));
    if (at !== null) element.append(`${xLabel ?? t("chart.step")} ${format.count(at)}`);
  };

  const plot = usePlot(box, table ? () => null : build, source.subscribe);

  // What the drawing depends on besides the points.
  const redraw = useCallback((): void => {
    const drawing = table ? null : build();
    if (!drawing || !box.current || box.current.clientWidth === 0) return;
    plot.current?.destroy();
    const palette = readPalette();
    plot.current = new uPlot(drawing.options(palette, box.current.clientWidth), drawing.data, box.current);
    drawing.after?.(plot.current, palette);
    // oxlint-disable-next-line react/exhaustive-deps -- `build` closes over exactly these
  }, [log, smoothing, metric, height, table, source]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else redraw();
  }, [redraw]);

  const onKey = (event: KeyboardEvent): void => {
    const u = plot.current;
    if (event.target !== event.currentTarget || !u) return;
    if (event.key === "0" || event.key === "Escape") zoom.current?.(null);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const step = event.key === "ArrowLeft" ? -1 : 1;
    const x = u.data[0];
    const next = Math.min(x.length - 1, Math.max(0, (u.cursor.idx ?? x.length - 1) + step));
    u.setCursor({ left: u.valToPos(x[next] ?? 0, "x"), top: u.bbox.height / uPlot.pxRatio / 2 });
  };

  return (
    <figure ref={figure} className={css["figure"]} data-testid={`chart-${id}`} tabIndex={0} onKeyDown={onKey} aria-label={title}>
      <div className={css["head"]}>
        <h3 title={title}>{title}</h3>
        {note.bad ? (
          <span className={css["alert"]} data-testid="non-finite">
            <IconAlertTriangle size={13} aria-hidden />
            {note.bad}
          </span>
        ) : null}
        <Tooltip label={t(table ? "chart.asChart" : "chart.asTable")}>
          <ActionIcon size="sm" variant="subtle" color="gray" onClick={() => setTable(!table)} aria-label={t(table ? "chart.asChart" : "chart.asTable")} aria-pressed={table}>
            {table ? <IconChartLine size={14} /> : <IconTable size={14} />}
          </ActionIcon>
        </Tooltip>
      </div>
      {table ? (
        <PointTable source={source} metric={metric} height={height + 40} />
      ) : (
        <>
          <div className={css["legend"]} ref={legend} />
          <div className={css["plot"]} ref={box} style={{ height }}>
            {note.kind ? <div className={css["wait"]}>{t(`chart.${note.kind}`)}</div> : null}
          </div>
          <div className={css["foot"]}>
            <span ref={foot} />
            {smoothing > 0 ? <span>{t("chart.smoothing", { factor: smoothing })}</span> : null}
          </div>
        </>
      )}
    </figure>
  );
}

/** "200 points", or of few lines each by name: "train 200 · val 64 points". */
function pointsText(lines: readonly Line[], t: TFunction): string {
  const total = lines.reduce((sum, line) => sum + line.columns.numPoints, 0);
  const all = t("chart.points", { count: total, n: format.count(total) });
  if (lines.length === 1 || lines.length > MAX_KEYS) return all;
  return t("chart.pointsOf", { each: lines.map((line) => `${line.label} ${format.count(line.columns.numPoints)}`).join(" · ") });
}

interface OptionsInput {
  palette: Palette;
  width: number;
  height: number;
  lines: Line[];
  bands: boolean[];
  smoothed: boolean;
  log: boolean;
  metric: string;
  syncKey?: string;
  onZoom: (range: { from: number; to: number } | null) => void;
  range: () => { from?: number; to?: number };
  restarts: () => number[];
  drawn: () => Line[];
  onCursor: (idx: number | null) => void;
}

function makeOptions(input: OptionsInput): uPlot.Options {
  const { palette, width, height, lines, bands, smoothed, log, metric } = input;
  const series: uPlot.Series[] = [{}];
  const uBands: uPlot.Band[] = [];
  lines.forEach((line, i) => {
    const { stroke, dash } = lineStyle(line.color, palette);
    const shown = line.faint ? alpha(stroke, 0.35) : stroke;
    const dots = hasDots(line);
    series.push({
      stroke: shown,
      width: line.faint ? 1 : smoothed ? 1.75 : 1.5,
      dash,
      // A key that is there, even undefined, takes the place of uPlot's own choice.
      points: dots ? { show: true, size: 4, fill: stroke } : { show: false },
    });
    if (smoothed) {
      series.push({ stroke: alpha(stroke, 0.25), width: 1, points: { show: false } });
    } else if (bands[i]) {
      const top = series.length;
      series.push({ stroke: "transparent", width: 0, points: { show: false } }, { stroke: "transparent", width: 0, points: { show: false } });
      uBands.push({ series: [top, top + 1], fill: alpha(stroke, 0.15) });
    }
  });
  const font = `11px "Inter Variable", system-ui, sans-serif`;
  const axis: uPlot.Axis = { stroke: palette.text2, font, ticks: { show: false } };
  return {
    width,
    height,
    series,
    bands: uBands,
    legend: { show: false },
    padding: [6, 8, 0, 0],
    scales: {
      x: {
        time: false,
        range: (_u, min, max) => {
          const { from, to } = input.range();
          const low = from ?? min ?? 0;
          const high = to ?? max ?? 1;
          return low === high ? [low - 0.5, high + 0.5] : [low, high];
        },
      },
      y: log
        ? { distr: 3 }
        : {
            range: (_u, min, max) => {
              if (min === null || max === null) return [0, 1];
              if (min === max) return min === 0 ? [0, 1] : [min - Math.abs(min) * 0.1, max + Math.abs(max) * 0.1];
              const pad = (max - min) * 0.06;
              return [min >= 0 && min - pad < 0 ? 0 : min - pad, max + pad];
            },
          },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 24, gap: 4, space: 70, values: (_u, ticks) => ticks.map((v) => (Number.isInteger(v) ? format.si(v, "", 3).replace(" ", "") : "")) },
      { ...axis, grid: { stroke: palette.grid, width: 1 }, size: 56, gap: 4, space: 34, splits: log ? (_u, _axis, min, max) => logTicks(min, max) : undefined, filter: log ? (_u, splits) => splits : undefined, values: (_u, ticks, _axis, _space, increment) => ticks.map((v) => (v === null ? "" : format.axis(metric, v, log ? 0 : increment))) },
    ],
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      focus: { prox: 24 },
      sync: input.syncKey
        ? { key: input.syncKey, setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } }
        : undefined,
      bind: {
        dblclick: () => () => {
          input.onZoom(null);
          return null;
        },
      },
    },
    focus: { alpha: lines.length > 1 && lines.length <= 24 ? 0.35 : 1 },
    hooks: {
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          const from = Math.max(0, Math.floor(u.posToVal(u.select.left, "x")));
          const to = Math.ceil(u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (to > from) input.onZoom({ from, to });
        },
      ],
      setCursor: [(u) => input.onCursor(u.cursor.idx ?? null)],
      drawClear: [(u) => drawNonFinite(u, input.drawn(), palette)],
      draw: [(u) => drawRestarts(u, input.restarts(), palette)],
    },
  };
}

/** Red bands where values were not finite: a line cannot show them, and they matter most. */
function drawNonFinite(u: uPlot, lines: Line[], palette: Palette): void {
  const { ctx } = u;
  ctx.save();
  ctx.fillStyle = alpha(palette.bad, 0.13);
  for (const line of lines) {
    const width = Math.max(1, line.columns.bucketSteps);
    let start: number | null = null;
    let end = 0;
    const flush = (): void => {
      if (start === null) return;
      const left = Math.max(u.bbox.left, u.valToPos(start - width / 2, "x", true));
      const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(end + width / 2, "x", true));
      if (right > left) ctx.fillRect(left, u.bbox.top, Math.max(2, right - left), u.bbox.height);
      start = null;
    };
    for (let i = 0; i < line.columns.step.length; i += 1) {
      const finite = Number.isFinite(line.columns.last[i]) && Number.isFinite(line.columns.mean[i]);
      if (finite) flush();
      else {
        start ??= line.columns.step[i] ?? 0;
        end = line.columns.step[i] ?? 0;
      }
    }
    flush();
  }
  ctx.restore();
}

function drawRestarts(u: uPlot, restarts: number[], palette: Palette): void {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = palette.text2;
  ctx.fillStyle = palette.text2;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.setLineDash([4 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
  ctx.font = `${10 * uPlot.pxRatio}px "Inter Variable", system-ui`;
  for (const step of restarts) {
    const at = Math.round(u.valToPos(step, "x", true));
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, u.bbox.top);
    ctx.lineTo(at, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.fillText("↻", at + 3 * uPlot.pxRatio, u.bbox.top + 10 * uPlot.pxRatio);
  }
  ctx.restore();
}

/** The same data for people who do not see the canvas: newest first. */
function PointTable({ source, metric, height }: { source: Source; metric: string; height: number }) {
  const { t } = useTranslation();
  const [, setTick] = useState(0);
  useEffect(() => source.subscribe(() => setTick((n) => n + 1)), [source]);
  const lines = source.lines();
  const x = unionSteps(lines.map((line) => line.columns));
  const steps = Array.from(x.slice(-TABLE_ROWS)).toReversed();
  const cut = x.length > steps.length ? <caption>{t("chart.newest", { n: format.count(steps.length), all: format.count(x.length) })}</caption> : null;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["table"]} style={{ height }} tabIndex={0}>
      <table>
        {cut}
        <thead>
          <tr>
            <th scope="col">{t("chart.step")}</th>
            {lines.map((line) => (
              <th scope="col" key={line.key}>
                {line.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <tr key={step}>
              <td>{format.count(step)}</td>
              {lines.map((line) => {
                const i = indexAt(line.columns.step, step);
                const value = line.columns.step[i] === step ? line.columns.mean[i] : null;
                return <td key={line.key}>{format.metric(metric, value as number | null)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
