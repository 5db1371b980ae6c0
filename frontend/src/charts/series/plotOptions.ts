import uPlot from "uplot";

import { cutRange, type XKind, yRange } from "../../lib/series/axis";
import * as format from "../../lib/format";
import { logTicks } from "../../lib/series/series";
import type { TimeZone } from "../../lib/time";
import { hasDots, type Laid, type Line, type View } from "./lines";
import { alpha, lineStyle, type Palette } from "../palette";
import { wallTick } from "./ticks";

export interface Mark {
  /** In units of the x axis. */
  at: number;
  kind: "restart" | "checkpoint" | "guard" | "rung" | "note";
  /** Written at the top of a rung or a note. */
  text?: string;
}

export interface Window {
  from: number;
  to: number;
}

export interface OptionsInput {
  palette: Palette;
  width: number;
  height: number;
  lines: Line[];
  laid: Laid;
  view: View;
  metric: string;
  zone: TimeZone;
  syncKey?: string;
  /** What the x axis is of; written at its end. */
  xName: string;
  onZoom: (range: Window | null) => void;
  /** What changes without a new plot is asked for at each drawing. */
  now: () => { lines: Line[]; laid: Laid | null; range: { from?: number; to?: number }; marks: Mark[] };
  onCursor: (idx: number | null) => void;
}

const ALONE_MAX = 24;
const Y_AXIS_PX = 56;
const Y_AXIS_GAP_PX = 4;
/** About as wide as a letter of a title, and half of the label of a tick. */
const LETTER_PX = 6.4;
const HALF_TICK_PX = 20;
/** A character of Chinese is as wide as it is high. */
const titleWidth = (title: string): number => [...title].length * (/[\u2e80-\u9fff]/.test(title) ? 11 : LETTER_PX);

const isDuration = (kind: XKind): boolean => kind === "relative" || kind === "seconds";

export function xText(kind: XKind, value: number, zone: TimeZone): string {
  if (isDuration(kind)) return format.seconds(value);
  if (kind === "epoch") return format.num(value, 4);
  return kind === "wall" ? wallTick(value, zone, true) : format.count(Math.round(value));
}

function xTick(kind: XKind, value: number, zone: TimeZone, log: boolean): string {
  if (kind === "wall") return wallTick(value, zone, false);
  if (isDuration(kind)) return format.seconds(value);
  if (kind === "epoch") return format.num(value, 3);
  return Number.isInteger(value) || log ? format.si(value, "", 3).replace(" ", "") : "";
}

export function makeOptions(input: OptionsInput): uPlot.Options {
  const { palette, width, height, lines, laid, metric, view, zone } = input;
  const smoothed = view.smoothing > 0;
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  lines.forEach((line, i) => {
    const { stroke, dash } = lineStyle(line.color, palette);
    series.push({
      stroke: line.faint ? alpha(stroke, 0.35) : stroke,
      width: line.faint ? 1 : smoothed ? 1.75 : 1.5,
      dash,
      // A key that is there, even undefined, takes the place of uPlot's own choice.
      points: hasDots(line) ? { show: true, size: 4, fill: stroke } : { show: false },
    });
    if (laid.raws[i]) series.push({ stroke: alpha(stroke, 0.25), width: 1, points: { show: false } });
    if (laid.bands[i]) {
      const top = series.length;
      const edge = { stroke: "transparent", width: 0, points: { show: false } };
      series.push(edge, { ...edge });
      bands.push({ series: [top, top + 1], fill: alpha(stroke, 0.15) });
    }
  });
  const font = `11px "Inter Variable", system-ui, sans-serif`;
  const axis: uPlot.Axis = { stroke: palette.text2, font, ticks: { show: false } };
  const isTime = view.x === "wall";
  return {
    width,
    height,
    series,
    bands,
    ms: 1,
    legend: { show: false },
    padding: [6, 8, 0, 0],
    tzDate: zone === "utc" ? (ts) => uPlot.tzDate(new Date(ts), "Etc/UTC") : undefined,
    scales: {
      x: {
        time: isTime,
        distr: view.logX ? 3 : 1,
        range: (_u, min, max) => {
          const { from, to } = input.now().range;
          const low = from !== undefined && (!view.logX || from > 0) ? from : (min ?? (view.logX ? 1 : 0));
          const high = to ?? max ?? 1;
          if (low < high) return [low, high];
          return view.logX ? [low / 2, low * 2] : [low - 0.5, low + 0.5];
        },
      },
      y: {
        distr: view.logY ? 3 : 1,
        range: (_u, min, max) => {
          const cut = input.now().laid?.cut;
          if (view.y) return cutRange(view.y, min, max, view.logY);
          // Percentages between 99.8 and 100 would fill the whole chart with noise.
          if (format.unitOf(input.metric) === "pct" && !view.logY && !cut) return [0, Math.max(100, max ?? 0)];
          return yRange(cut?.[0] ?? min, cut?.[1] ?? max, view.logY);
        },
      },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        gap: 4,
        space: isTime ? 80 : 70,
        incrs: isDuration(view.x) ? format.DURATION_STEPS_S : undefined,
        splits: view.logX ? (_u, _axis, min, max) => logTicks(min, max) : undefined,
        filter: view.logX ? (_u, splits) => splits : undefined,
        values: (u, ticks) =>
          ticks.map((v) => (v === null || isUnderTitle(u, v, input) ? "" : xTick(view.x, v, zone, view.logX))),
      },
      {
        ...axis,
        grid: { stroke: palette.grid, width: 1 },
        size: (u, values) => yAxisWidth(u, values, font),
        gap: Y_AXIS_GAP_PX,
        space: 34,
        incrs: format.isBytes(metric) ? format.BYTE_STEPS : undefined,
        splits: view.logY ? (_u, _axis, min, max) => logTicks(min, max) : undefined,
        filter: view.logY ? (_u, splits) => splits : undefined,
        values: (_u, ticks, _axis, _space, increment) => format.axisTicks(metric, ticks, view.logY ? 0 : increment),
      },
    ],
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      focus: { prox: 24 },
      sync: input.syncKey
        ? {
            key: input.syncKey,
            setSeries: false,
            filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
          }
        : undefined,
      bind: {
        dblclick: () => () => {
          input.onZoom(null);
          return null;
        },
      },
    },
    focus: { alpha: lines.length > 1 && lines.length <= ALONE_MAX ? 0.35 : 1 },
    hooks: {
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, "x");
          const to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (to > from) input.onZoom({ from, to });
        },
      ],
      setCursor: [(u) => input.onCursor(u.cursor.idx ?? null)],
      drawClear: [(u) => drawNonFinite(u, input.now(), palette)],
      draw: [
        (u) => {
          drawMarks(u, input.now().marks, palette);
          drawTitle(u, input.xName, palette);
        },
      ],
    },
  };
}

/** Width in pixels that shows the longest label whole; charts of one column stay aligned up to `Y_AXIS_PX`. */
function yAxisWidth({ ctx }: uPlot, labels: string[] | null, font: string): number {
  ctx.save();
  ctx.font = font;
  const longest = Math.max(0, ...(labels ?? []).map((label) => ctx.measureText(label).width));
  ctx.restore();
  return Math.max(Y_AXIS_PX, Math.ceil(longest) + 2 * Y_AXIS_GAP_PX);
}

/** Whether the label of a tick would stand where the title of the x axis does, at its end. */
export function isUnderTitle(
  u: Pick<uPlot, "scales" | "width">,
  value: number,
  { view, xName }: Pick<OptionsInput, "view" | "xName">,
): boolean {
  const { min, max } = u.scales["x"] ?? {};
  if (min == null || max == null || !(max > min)) return false;
  const place = (at: number): number => (view.logX ? Math.log(at) : at);
  const room = (u.width - Y_AXIS_PX) * (1 - (place(value) - place(min)) / (place(max) - place(min)));
  return room < titleWidth(xName) + HALF_TICK_PX + 4;
}

/** What the x axis is of, at its end. */
function drawTitle(u: uPlot, title: string, palette: Palette): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = palette.text2;
  ctx.font = `${11 * ratio}px "Inter Variable", system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "top";
  ctx.fillText(title, bbox.left + bbox.width, bbox.top + bbox.height + 5 * ratio);
  ctx.restore();
}

/** Red bands where values were not finite: a line cannot show them, and they matter most. */
function drawNonFinite(u: uPlot, { lines, laid }: { lines: Line[]; laid: Laid | null }, palette: Palette): void {
  const { ctx } = u;
  ctx.save();
  ctx.fillStyle = alpha(palette.bad, 0.13);
  lines.forEach(({ columns }, k) => {
    const x = laid?.xs[k] ?? columns.step;
    let first = -1;
    const flush = (end: number): void => {
      if (first < 0) return;
      // Half of the way to the entries beside it, as a bucket's width.
      const from = x[first] ?? 0;
      const to = x[end - 1] ?? from;
      const left = Math.max(u.bbox.left, u.valToPos((from + (x[first - 1] ?? from)) / 2, "x", true));
      const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos((to + (x[end] ?? to)) / 2, "x", true));
      if (right >= left) ctx.fillRect(left, u.bbox.top, Math.max(2, right - left), u.bbox.height);
      first = -1;
    };
    for (let i = 0; i < columns.step.length; i += 1) {
      const finite = Number.isFinite(columns.last[i]) && Number.isFinite(columns.mean[i]);
      if (finite) flush(i);
      else if (first < 0) first = i;
    }
    flush(columns.step.length);
  });
  ctx.restore();
}

/** Restarts and notes as dashed lines from top to bottom, guards as red ones, checkpoints as ticks with a diamond on the axis. */
function drawMarks(u: uPlot, marks: readonly Mark[], palette: Palette): void {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = palette.text2;
  ctx.fillStyle = palette.text2;
  ctx.lineWidth = ratio;
  ctx.font = `${10 * ratio}px "Inter Variable", system-ui`;
  for (const mark of marks) {
    const at = Math.round(u.valToPos(mark.at, "x", true));
    if (!(at >= bbox.left && at <= bbox.left + bbox.width)) continue;
    ctx.beginPath();
    if (mark.kind === "rung" || mark.kind === "note") {
      const isRung = mark.kind === "rung";
      ctx.setLineDash([2 * ratio, 3 * ratio]);
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.textAlign = isRung ? "right" : "left";
      // Below the sign of a restart, which may be at the same step.
      ctx.fillText(mark.text ?? "", at + (isRung ? -3 : 3) * ratio, bbox.top + (isRung ? 10 : 22) * ratio);
      ctx.textAlign = "left";
    } else if (mark.kind === "restart") {
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText("↻", at + 3 * ratio, bbox.top + 10 * ratio);
    } else if (mark.kind === "guard") {
      const size = 4 * ratio;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = palette.bad;
      ctx.setLineDash([]);
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(at - size, bbox.top);
      ctx.lineTo(at + size, bbox.top);
      ctx.lineTo(at, bbox.top + 1.5 * size);
      ctx.fill();
      ctx.restore();
    } else {
      const bottom = bbox.top + bbox.height;
      const size = 3.5 * ratio;
      ctx.moveTo(at, bottom - 2 * size);
      ctx.lineTo(at + size, bottom - size);
      ctx.lineTo(at, bottom);
      ctx.lineTo(at - size, bottom - size);
      ctx.fill();
    }
  }
  ctx.restore();
}
