import "../i18n/en/charts";

import { ActionIcon, Modal, Tooltip } from "@mantine/core";
import { useViewportSize } from "@mantine/hooks";
import { IconAlertTriangle, IconChartLine, IconMaximize, IconTable } from "@tabler/icons-react";
import { type KeyboardEvent, type RefObject, useCallback, useEffect, useRef, useState } from "react";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";

import { useTimeZone } from "../components/Time";
import { moved, outside, placeOf, type XKind } from "../lib/axis";
import * as format from "../lib/format";
import { nonFinite, stepsOf } from "../lib/series";
import css from "./chart.module.css";
import { ChartMenu } from "./ChartMenu";
import { pointAt } from "./legend";
import { hasDots, type Laid, lay, type Line, type Source, type View } from "./lines";
import { lineStyle, readPalette } from "./palette";
import { makeOptions, type Mark, type Window, xText } from "./plotOptions";
import { PointTable } from "./PointTable";
import { type Drawing, usePlot } from "./usePlot";

export type { Line, Source } from "./lines";

export type Command = "logY" | "logX" | "smoothing" | "full";

interface Props {
  id: string;
  title: string;
  /** Its name decides unit and axis format. */
  metric: string;
  source: Source;
  x?: XKind;
  log?: boolean;
  logX?: boolean;
  clip?: boolean;
  smoothing?: number;
  syncKey?: string;
  height?: number;
  onZoom?: (range: Window | null) => void;
  /** Keys of the chart that change settings; without it they do nothing. */
  onCommand?: (command: Command) => void;
}

const MAX_KEYS = 6;
const MAX_NAMED = 2;

/** A chart that fills the window until it is closed. */
export function FullScreen({ onClose, title, children }: { onClose: () => void; title: string; children: (height: number) => React.ReactNode }) {
  const { t } = useTranslation();
  const { height } = useViewportSize();
  return (
    <Modal opened fullScreen onClose={onClose} title={title} closeButtonProps={{ "aria-label": t("common.close") }}>
      {height > 0 ? children(Math.max(220, height - 210)) : null}
    </Modal>
  );
}

export function SeriesChart({ id, title, metric, source, x = "step", log = false, logX = false, clip = false, smoothing = 0, syncKey, height = 210, onZoom, onCommand }: Props) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const figure = useRef<HTMLElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const foot = useRef<HTMLSpanElement>(null);
  const spoken = useRef<HTMLSpanElement>(null);
  const [table, setTable] = useState(false);
  // Words beside the chart; set only when they change, not per point.
  const [note, setNote] = useState<{ kind: "wait" | "empty" | "error" | null; bad: string | null }>({ kind: "wait", bad: null });
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const drawn = useRef<{ lines: Line[]; laid: Laid | null }>({ lines: [], laid: null });
  const view: View = { x, logX, logY: log, smoothing, clip };
  const xName = x === "step" ? t("chart.step") : t(`metrics.xKind.${x}`);

  /** Restarts and checkpoints where they stand on this axis, by the first line. */
  const marks = (): Mark[] => {
    const { lines, laid } = drawn.current;
    const place = (step: number): number | null => (x === "step" ? step : lines[0] && laid?.xs[0] ? placeOf(step, lines[0].columns, laid.xs[0]) : null);
    const of = (steps: number[] | undefined, kind: Mark["kind"]): Mark[] =>
      (steps ?? []).flatMap((step) => {
        const at = place(step);
        return at === null ? [] : [{ at, kind }];
      });
    const rungs = (source.rungs?.() ?? []).map((at): Mark => ({ at, kind: "rung", text: x === "seconds" ? xText(x, at, zone) : format.num(at) }));
    return [...rungs, ...of(source.checkpoints?.(), "checkpoint"), ...of(source.restarts?.(), "restart")];
  };

  const build = (): Drawing | null => {
    const lines = source.lines().filter((line) => line.columns.step.length > 0);
    const restarts = source.restarts?.() ?? [];
    const range = source.range?.() ?? {};
    const laid = lines.length > 0 ? lay(lines, view) : null;
    drawn.current = { lines, laid };
    describe(lines, laid);
    if (!laid) return null;
    const signature = JSON.stringify([lines.map((l) => [l.key, l.color, l.faint, hasDots(l)]), laid.bands, laid.raws, view, height, metric, syncKey, zone]);
    return {
      signature,
      data: laid.data,
      options: (palette, width) =>
        makeOptions({ palette, width, height, lines, laid, view, metric, zone, syncKey, onZoom: zoomTo, now: () => ({ ...drawn.current, range: source.range?.() ?? {}, marks: marks() }), onCursor: (idx) => writeLegend(idx) }),
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

  const zoomTo = (range: Window | null): void => {
    if (!range || x !== "step") return zoom.current?.(range);
    const from = Math.max(0, Math.floor(range.from));
    const to = Math.ceil(range.to);
    return to > from ? zoom.current?.({ from, to }) : undefined;
  };

  const describe = (lines: Line[], laid: Laid | null): void => {
    const error = source.error?.() ?? null;
    const kind = lines.length > 0 ? null : error ? "error" : source.ready() ? "empty" : "wait";
    const bad = lines.flatMap((line) => nonFinite(line.columns)).toSorted((a, b) => a.step - b.step)[0];
    const badText = bad ? t("chart.nonFinite", { kind: bad.kind, step: format.count(bad.step) }) : null;
    setNote((before) => (before.kind === kind && before.bad === badText ? before : { kind, bad: badText }));
    if (!figure.current) return;
    const main = lines[0];
    const values = main ? main.columns.mean.filter(Number.isFinite) : [];
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
    if (foot.current) foot.current.textContent = footText(lines, laid, smoothing, t);
  };

  const writeLegend = (idx: number | null): void => {
    const element = legend.current;
    if (!element) return;
    const { lines, laid } = drawn.current;
    const palette = readPalette();
    const at = idx === null ? null : (plot.current?.data[0][idx] ?? null);
    element.replaceChildren();
    lines.slice(0, MAX_KEYS).forEach((line, i) => {
      const key = document.createElement("span");
      key.className = css["key"] ?? "";
      const mark = document.createElement("i");
      const style = lineStyle(line.color, palette);
      mark.style.borderTopColor = style.stroke;
      mark.style.borderTopStyle = style.dash ? "dashed" : "solid";
      const value = document.createElement("b");
      const told = valueText(line, laid?.xs[i], at, x, metric, zone);
      value.textContent = told.text;
      if (told.isPast) value.dataset["past"] = "";
      key.append(mark, line.label, value);
      key.title = line.label;
      element.append(key);
    });
    if (lines.length > MAX_KEYS) element.append(t("chart.moreLines", { n: lines.length - MAX_KEYS }));
    if (at !== null) element.append(`${xName} ${xText(x, at, zone)}`);
  };

  /** What the cursor points at, in words, for who moves it with the keyboard. */
  const speak = (at: number): void => {
    const { lines, laid } = drawn.current;
    const values = lines.slice(0, MAX_KEYS).map((line, i) => `${line.label} ${valueText(line, laid?.xs[i], at, x, metric, zone).text}`);
    if (spoken.current) spoken.current.textContent = t("chart.at", { x: `${xName} ${xText(x, at, zone)}`, values: values.join(", ") });
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
  }, [log, logX, x, clip, zone, smoothing, metric, height, table, source]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else redraw();
  }, [redraw]);

  const onKey = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    if (keyPressed(event, plot, x, zoomTo, speak)) {
      event.preventDefault();
      return;
    }
    const command = ({ l: "logY", L: "logX", s: "smoothing", f: "full" } as const)[event.key as "l"];
    if (command && onCommand) onCommand(command);
    else if (event.key === "d") setTable(!table);
    else return;
    event.preventDefault();
  };

  return (
    <figure ref={figure} className={css["figure"]} data-testid={`chart-${id}`} tabIndex={0} onKeyDown={onKey} aria-label={title} aria-description={t("chart.keys")}>
      <div className={css["head"]}>
        <h3 title={title}>{title}</h3>
        {note.bad ? (
          <span className={css["alert"]} data-testid="non-finite">
            <IconAlertTriangle size={13} aria-hidden />
            {note.bad}
          </span>
        ) : null}
        <span className={css["tools"]}>
          <Tooltip label={t(table ? "chart.asChart" : "chart.asTable")}>
            <ActionIcon size="sm" variant="subtle" color="gray" onClick={() => setTable(!table)} aria-label={t(table ? "chart.asChart" : "chart.asTable")} aria-pressed={table}>
              {table ? <IconChartLine size={14} /> : <IconTable size={14} />}
            </ActionIcon>
          </Tooltip>
          {onCommand ? (
            <Tooltip label={t("chart.full")}>
              <ActionIcon size="sm" variant="subtle" color="gray" onClick={() => onCommand("full")} aria-label={t("chart.full")}>
                <IconMaximize size={14} />
              </ActionIcon>
            </Tooltip>
          ) : null}
          <ChartMenu title={title} metric={metric} view={view} plot={plot} lines={source.lines} />
        </span>
      </div>
      {table ? (
        <PointTable source={source} metric={metric} height={height + 40} kind={x} xName={xName} />
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
          <span className="srOnly" aria-live="polite" ref={spoken} />
        </>
      )}
    </figure>
  );
}

/** The value of a line at a place of the axis, or its latest; where it has none there, the one before with its place. */
function valueText(line: Line, own: Float64Array | undefined, at: number | null, x: XKind, metric: string, zone: Parameters<typeof xText>[2]): { text: string; isPast: boolean } {
  const xs = own ?? line.columns.step;
  const found = pointAt(xs, line.columns.bucketSteps, at, x);
  if (found === null) return { text: format.MISSING, isPast: false };
  const value = format.metric(metric, line.columns.mean[found.index] as number);
  return found.isThere ? { text: value, isPast: false } : { text: `${value} (${xText(x, xs[found.index] ?? 0, zone)})`, isPast: true };
}

/** Cursor, zoom and move by keyboard; true when the key was one of theirs. */
function keyPressed(event: KeyboardEvent, plot: RefObject<uPlot | null>, x: XKind, zoomTo: (range: Window | null) => void, speak: (at: number) => void): boolean {
  const u = plot.current;
  if (!u) return false;
  const { key } = event;
  if (key === "0" || key === "Escape") {
    if (key === "0") zoomTo(null);
    return key === "0";
  }
  const range = { from: u.scales["x"]?.min ?? 0, to: u.scales["x"]?.max ?? 1 };
  const xs = u.data[0];
  const idx = u.cursor.idx ?? null;
  const center = idx === null ? (range.from + range.to) / 2 : (xs[idx] ?? range.from);
  if (key === "+" || key === "=") zoomTo(moved(range, "in", center));
  else if (key === "-") zoomTo(moved(range, "out", center));
  else if (event.shiftKey && (key === "ArrowLeft" || key === "ArrowRight")) zoomTo(moved(range, key === "ArrowLeft" ? "left" : "right", center, x === "wall" ? range.from - (range.to - range.from) : 0));
  else if (key === "ArrowLeft" || key === "ArrowRight" || key === "Home" || key === "End") {
    const from = idx ?? (key === "ArrowRight" ? -1 : xs.length);
    const next = key === "Home" ? 0 : key === "End" ? xs.length - 1 : Math.min(xs.length - 1, Math.max(0, from + (key === "ArrowLeft" ? -1 : 1)));
    u.setCursor({ left: u.valToPos(xs[next] ?? 0, "x"), top: u.bbox.height / uPlot.pxRatio / 2 });
    speak(xs[next] ?? 0);
  } else return false;
  return true;
}

/** What stands below a chart: how many points or buckets, what the band is, what the axis leaves out. */
function footText(lines: readonly Line[], laid: Laid | null, smoothing: number, t: TFunction): string {
  const main = lines[0];
  if (!main || !laid) return "";
  const coarse = Math.max(...lines.map((line) => line.columns.bucketSteps), 1);
  const parts =
    coarse > 1
      ? [t(smoothing > 0 || main.faint || main.band ? "chart.bucketsOnly" : "chart.buckets", { n: format.count(main.columns.step.length), steps: format.count(coarse) })]
      : [pointsText(lines, t)];
  if (lines.some((line) => line.band)) parts.push(t("chart.band"));
  if (lines.some((line) => line.columns.downsampled)) parts.push(t("chart.downsampled"));
  const cut = laid.cut ? outside(laid.values, laid.cut) : 0;
  if (cut > 0) parts.push(t("chart.outside", { count: cut, n: format.count(cut) }));
  return parts.join(" · ");
}

/** "200 points", or of few lines each by name: "train 200 · val 64 points". */
function pointsText(lines: readonly Line[], t: TFunction): string {
  const main = lines[0]?.columns;
  const steps = main && lines.length === 1 ? stepsOf(main) : null;
  if (main && steps !== null && steps > main.numPoints) return t("chart.pointsOfSteps", { n: format.count(main.numPoints), all: format.count(steps) });
  const total = lines.reduce((sum, line) => sum + line.columns.numPoints, 0);
  const all = t("chart.points", { count: total, n: format.count(total) });
  if (lines.length === 1 || lines.length > MAX_NAMED) return all;
  return t("chart.pointsOf", { each: lines.map((line) => `${line.label} ${format.count(line.columns.numPoints)}`).join(" · ") });
}
