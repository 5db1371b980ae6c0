import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";

import { useTimeZone } from "../../components/Time";
import { placeOf, type XKind } from "../../lib/series/axis";
import * as format from "../../lib/format";
import { footText, nonFiniteText, type Shown, spokenText, summaryText, writeLegend } from "./chartWords";
import { hasDots, type Laid, lay, type Line, type Source, type View } from "./lines";
import { readPalette } from "../palette";
import { makeOptions, type Mark, type Window, xText } from "./plotOptions";
import { type Drawing, usePlot } from "./usePlot";

/** The elements of a chart that are written to without a render. */
export interface ChartParts {
  figure: RefObject<HTMLElement | null>;
  box: RefObject<HTMLDivElement | null>;
  legend: RefObject<HTMLDivElement | null>;
  foot: RefObject<HTMLSpanElement | null>;
  spoken: RefObject<HTMLSpanElement | null>;
}

interface Wanted {
  title: string;
  metric: string;
  source: Source;
  view: View;
  height: number;
  syncKey: string | undefined;
  /** Nothing is drawn: the values stand in a table. */
  isTable: boolean;
  /** Keys of the lines that are not drawn. */
  hidden: ReadonlySet<string>;
  onZoom: ((range: Window | null) => void) | undefined;
}

export type Note = { kind: "wait" | "empty" | "error" | null; bad: string | null };

/** Draws the lines of a source, and tells what stands beside them; points never enter the state. */
export function useSeriesPlot(parts: ChartParts, wanted: Wanted) {
  const { title, metric, source, view, height, syncKey, isTable, hidden, onZoom } = wanted;
  const { x } = view;
  const [yLow, yHigh] = view.y ?? [];
  const { t } = useTranslation();
  const zone = useTimeZone();
  const xName = x === "step" ? t("chart.step") : t(`metrics.xKind.${x}`);
  // Words beside the chart; set only when they change, not per point.
  const [note, setNote] = useState<Note>({ kind: "wait", bad: null });
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const drawn = useRef<{ lines: Line[]; all: Line[]; laid: Laid | null }>({ lines: [], all: [], laid: null });
  const shown = (): Shown => ({ ...drawn.current, hidden, metric, x, xName, zone, t });

  const zoomTo = (range: Window | null): void => {
    if (!range || x !== "step") return zoom.current?.(range);
    const from = Math.max(0, Math.floor(range.from));
    const to = Math.ceil(range.to);
    return to > from ? zoom.current?.({ from, to }) : undefined;
  };
  const pointTo = (idx: number | null): void => {
    const at = idx === null ? null : (plot.current?.data[0][idx] ?? null);
    if (parts.legend.current) writeLegend(parts.legend.current, shown(), at, readPalette());
  };
  const describe = (): void => {
    const { lines } = drawn.current;
    const kind = lines.length > 0 ? null : source.error?.() ? "error" : source.ready() ? "empty" : "wait";
    const bad = nonFiniteText(shown());
    setNote((before) => (before.kind === kind && before.bad === bad ? before : { kind, bad }));
    if (!parts.figure.current) return;
    parts.figure.current.setAttribute("aria-label", summaryText(shown(), title));
    if (parts.foot.current) parts.foot.current.textContent = footText(shown());
  };
  const build = (): Drawing | null => {
    const all = source.lines().filter((line) => line.columns.step.length > 0);
    const lines = hidden.size === 0 ? all : all.filter((line) => !hidden.has(line.key));
    const laid = lines.length > 0 ? lay(lines, view) : null;
    drawn.current = { lines, all, laid };
    describe();
    if (!laid) return null;
    const kinds = lines.map((l) => [l.key, l.color, l.faint, hasDots(l)]);
    const now = () => ({ ...drawn.current, range: source.range?.() ?? {}, marks: marksOf(source, shown()) });
    const fixed = { height, lines, laid, view, metric, zone, syncKey, xName };
    return {
      signature: JSON.stringify([kinds, laid.bands, laid.raws, view, height, metric, syncKey, zone]),
      data: laid.data,
      options: (palette, width) => makeOptions({ ...fixed, palette, width, onZoom: zoomTo, now, onCursor: pointTo }),
      after: (drawnPlot) => {
        if (!parts.figure.current) return;
        writeFacts(parts.figure.current, lines, source);
        pointTo(drawnPlot.cursor.idx ?? null);
      },
    };
  };

  const plot = usePlot(parts.box, isTable ? () => null : build, source.subscribe);

  // What the drawing depends on besides the points.
  const redraw = useCallback((): void => {
    const box = parts.box.current;
    const drawing = isTable ? null : build();
    if (!drawing || !box || box.clientWidth === 0) return;
    plot.current?.destroy();
    const palette = readPalette();
    plot.current = new uPlot(drawing.options(palette, box.clientWidth), drawing.data, box);
    drawing.after?.(plot.current, palette);
    // oxlint-disable-next-line react/exhaustive-deps -- `build` closes over exactly these
  }, [view.logY, view.logX, x, view.clip, yLow, yHigh, zone, view.smoothing, metric, height, isTable, hidden, source]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else redraw();
  }, [redraw]);

  const speak = (at: number): void => {
    if (parts.spoken.current) parts.spoken.current.textContent = spokenText(shown(), at);
  };
  return { plot, note, xName, zoomTo, speak };
}

/** Longest text of a note in a chart; the list beside the panels has all of it. */
const NOTE_CHARS = 24;

/** Restarts, checkpoints, notes and what guards did where they stand on this axis, by the first line. */
function marksOf(source: Source, { lines, laid, x, zone }: Shown): Mark[] {
  const place = (step: number): number | null =>
    x === "step" ? step : lines[0] && laid?.xs[0] ? placeOf(step, lines[0].columns, laid.xs[0]) : null;
  const of = (steps: number[] | undefined, kind: Mark["kind"]): Mark[] =>
    (steps ?? []).flatMap((step) => {
      const at = place(step);
      return at === null ? [] : [{ at, kind }];
    });
  const text = (at: number, kind: XKind): string => (kind === "seconds" ? xText(kind, at, zone) : format.num(at));
  const rungs = (source.rungs?.() ?? []).map((at): Mark => ({ at, kind: "rung", text: text(at, x) }));
  const saved = of(source.checkpoints?.(), "checkpoint");
  const notes = (source.notes?.() ?? []).flatMap((note): Mark[] => {
    const at = place(note.step);
    const text = note.text.length > NOTE_CHARS ? `${note.text.slice(0, NOTE_CHARS - 1)}…` : note.text;
    return at === null ? [] : [{ at, kind: "note", text }];
  });
  return [...rungs, ...notes, ...saved, ...of(source.restarts?.(), "restart"), ...of(source.guards?.(), "guard")];
}

/** What tests read of a canvas. */
function writeFacts(figure: HTMLElement, lines: readonly Line[], source: Source): void {
  const last = Math.max(...lines.map((line) => line.columns.step.at(-1) ?? 0));
  figure.dataset["lastStep"] = String(last);
  figure.dataset["numPoints"] = String(lines.reduce((sum, line) => sum + line.columns.numPoints, 0));
  figure.dataset["numSeries"] = String(lines.length);
  figure.dataset["restarts"] = (source.restarts?.() ?? []).join(",");
  figure.dataset["notes"] = (source.notes?.() ?? []).map(({ step }) => step).join(",");
  figure.dataset["from"] = String(source.range?.().from ?? "");
  figure.dataset["drawnAt"] = String(Date.now());
}
