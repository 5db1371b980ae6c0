import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useInViewport, useMergedRef } from "@mantine/hooks";
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import css from "./chart.module.css";
import { type EChartsOption, type EChartsType, init, svgOf } from "./echarts";
import { Figure, type FigureTable } from "./Figure";
import { type Palette, readPalette } from "./palette";
import { framed, type Key } from "./svgFile";

export interface Theme extends Palette {
  /** Viridis from worst to best, which every kind of sight tells apart; the best stands out of the ground. */
  scale: string[];
}

/** A point that the keyboard and the pointer find. */
export interface Spot {
  series: number;
  index: number;
  /** Where it is on a chart with two axes. */
  at?: [x: number, y: number];
}

interface Props {
  title: string;
  unit?: string;
  /** What is to be seen, in a sentence. */
  label: string;
  height: number;
  /** Below this the chart scrolls sideways, in px. */
  minWidth?: number;
  keys: readonly Key[];
  table: () => FigureTable;
  testId: string;
  /** A new identity draws again: memoise it. */
  option: (theme: Theme) => EChartsOption;
  /** What stands at a point, in words; null: nothing to say. */
  describe: (series: number, index: number) => string | null;
  /** The points in the order in which the arrow keys take them. */
  spots: () => readonly Spot[];
  onOpen?: (series: number, index: number) => void;
  /** A range was brushed on a parallel axis, or taken away (null). */
  onBrush?: (axisId: string, range: { low: number; high: number } | null) => void;
  brushes?: ReadonlyMap<string, { low: number; high: number }>;
  /** The name of an axis was clicked. */
  onAxis?: (axisId: string) => void;
}

interface Hit {
  seriesIndex?: number;
  dataIndex?: number;
  componentType?: string;
  targetType?: string;
  parallelAxisIndex?: number;
  name?: string;
}

/** Lines of words in a box; no markup, which the content security policy would hold against us. */
function tip(text: string): HTMLElement {
  const box = document.createElement("div");
  for (const line of text.split("\n")) box.append(Object.assign(document.createElement("div"), { textContent: line }));
  return box;
}

function themed(theme: Theme, label: string, font: string, describe: Props["describe"]): EChartsOption {
  return {
    animation: false,
    textStyle: { fontFamily: font, fontSize: 11, color: theme.text2 },
    aria: { enabled: true, label: { description: label } },
    tooltip: {
      trigger: "item",
      confine: true,
      transitionDuration: 0,
      backgroundColor: theme.bg,
      borderColor: theme.line,
      textStyle: { color: theme.text, fontSize: 12, fontFamily: font },
      formatter: (hit) => {
        const one = Array.isArray(hit) ? hit[0] : hit;
        return tip((one ? describe(one.seriesIndex ?? 0, one.dataIndex) : null) ?? "");
      },
    },
  };
}

/** A chart of ECharts in our colours: drawn when it comes into view, with the keyboard as by pointer. */
export function EChart(props: Props) {
  const { title, unit, height, keys, table, testId, describe, spots, onOpen } = props;
  const { t } = useTranslation();
  const live = useRef<Live | null>(null);
  const place = useRef(-1);
  const ring = useRef<HTMLSpanElement>(null);
  const spoken = useRef<HTMLDivElement>(null);

  const move = (key: string): void => {
    const chart = live.current?.chart;
    const all = spots();
    if (all.length === 0) return;
    const before = all[place.current];
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[key] ?? 0;
    const to = key === "Home" ? 0 : key === "End" ? all.length - 1 : before ? place.current + by : 0;
    place.current = Math.min(all.length - 1, Math.max(0, to));
    const spot = all[place.current];
    if (!spot) return;
    if (spoken.current)
      spoken.current.textContent = t("chart.spot", {
        n: place.current + 1,
        all: all.length,
        text: (describe(spot.series, spot.index) ?? "").replaceAll("\n", " · "),
      });
    if (before) chart?.dispatchAction({ type: "downplay", seriesIndex: before.series, dataIndex: before.index });
    chart?.dispatchAction({ type: "highlight", seriesIndex: spot.series, dataIndex: spot.index });
    const pixel = spot.at ? chart?.convertToPixel({ seriesIndex: spot.series }, spot.at) : undefined;
    if (!ring.current || !Array.isArray(pixel)) return;
    ring.current.hidden = false;
    ring.current.style.transform = `translate(${(pixel[0] ?? 0) - 7}px, ${(pixel[1] ?? 0) - 7}px)`;
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(Arrow|Home$|End$|Page)/.test(event.key)) move(event.key);
    else if (event.key === "Enter" && onOpen) {
      const spot = spots()[place.current];
      if (spot) onOpen(spot.series, spot.index);
    } else return;
    event.preventDefault();
  };

  /** The points are others: the place among them means nothing any more. */
  const drawn = (now: Live | null): void => {
    live.current = now;
    place.current = -1;
    if (ring.current) ring.current.hidden = true;
    if (spoken.current) spoken.current.textContent = "";
  };

  return (
    <Figure
      title={title}
      unit={unit}
      height={height}
      keys={keys}
      table={table}
      picture={() =>
        live.current ? framed(svgOf(live.current.option, live.current.chart.getWidth(), height), title, keys) : null
      }
      testId={testId}
      onKeyDown={onKeyDown}
      keyHelp={t(onOpen ? "chart.spotKeysOpen" : "chart.spotKeys")}
      foot={<div className={css["spoken"]} aria-live="polite" ref={spoken} />}
    >
      <Plot {...props} ring={ring} onDrawn={drawn} />
    </Figure>
  );
}

interface Live {
  chart: EChartsType;
  option: EChartsOption;
}

/** The canvas, from the time it is first seen until the table takes its place. */
function Plot(props: Props & { ring: RefObject<HTMLSpanElement | null>; onDrawn: (now: Live | null) => void }) {
  const { label, height, minWidth = 0, testId, option, brushes, ring } = props;
  const scheme = useComputedColorScheme("light", { getInitialValueInEffect: false });
  const size = useElementSize<HTMLDivElement>();
  const seen = useInViewport<HTMLDivElement>();
  const box = useMergedRef(size.ref, seen.ref);
  const target = useRef<HTMLDivElement>(null);
  const made = useRef<EChartsType | null>(null);
  const axes = useRef<{ id: string }[]>([]);
  const shown = useRef(new Set<string>());
  const latest = useRef(props);
  latest.current = props;
  const [wanted, setWanted] = useState(false);
  if (seen.inViewport && !wanted) setWanted(true);
  const width = size.width > 0 ? Math.max(size.width, minWidth) : 0;
  const isThere = wanted && width > 0;

  useEffect(() => {
    const element = target.current;
    if (!isThere || !element) return undefined;
    const chart = init(element, null, { renderer: "canvas" });
    made.current = chart;
    chart.on("finished", () => {
      element.dataset["painted"] = String(Math.round(performance.now()));
    });
    chart.on("click", (raw) => {
      const hit = raw as Hit;
      if (hit.componentType === "parallelAxis") {
        const axis = axes.current[hit.parallelAxisIndex ?? -1];
        if (axis && hit.targetType === "axisName") latest.current.onAxis?.(axis.id);
      } else if (hit.dataIndex !== undefined) latest.current.onOpen?.(hit.seriesIndex ?? 0, hit.dataIndex);
    });
    chart.on("axisareaselected", (raw) => {
      const { parallelAxisId, intervals } = raw as unknown as { parallelAxisId: string; intervals: [number, number][] };
      const range = intervals[0];
      latest.current.onBrush?.(parallelAxisId, range ? { low: Math.min(...range), high: Math.max(...range) } : null);
    });
    return () => {
      chart.dispose();
      made.current = null;
      latest.current.onDrawn(null);
    };
  }, [isThere, scheme]);

  useEffect(() => {
    made.current?.resize({ width, height });
  }, [width, height, isThere, scheme]);

  useEffect(() => {
    const chart = made.current;
    const element = target.current;
    if (!chart || !element) return;
    const style = getComputedStyle(element);
    const theme: Theme = {
      ...readPalette(),
      scale: [0, 1, 2, 3, 4].map((i) => style.getPropertyValue(`--scale-${i}`).trim()),
    };
    const drawing = {
      ...themed(theme, label, style.fontFamily.replaceAll('"', "'"), (series, index) =>
        latest.current.describe(series, index),
      ),
      ...option(theme),
    };
    axes.current = [drawing["parallelAxis"] ?? []].flat() as { id: string }[];
    chart.setOption(drawing, { notMerge: true });
    latest.current.onDrawn({ chart, option: drawing });
  }, [option, label, scheme, isThere]);

  // What was brushed elsewhere, or before this was drawn. Each action draws the whole chart again.
  useEffect(() => {
    for (const { id } of axes.current) {
      const range = brushes?.get(id);
      if (!range && !shown.current.has(id)) continue;
      if (range) shown.current.add(id);
      else shown.current.delete(id);
      made.current?.dispatchAction(
        { type: "axisAreaSelect", parallelAxisId: id, intervals: range ? [[range.low, range.high]] : [] },
        { silent: true },
      );
    }
  }, [brushes, option, label, scheme, isThere]);

  return (
    <div
      ref={box}
      className={css["scroll"]}
      style={{ minHeight: height }}
      {...(minWidth > size.width ? { tabIndex: 0 } : {})}
    >
      <div
        ref={target}
        data-testid={`${testId}-canvas`}
        role="img"
        aria-label={label}
        style={{ width: width || "100%", height }}
      />
      <span ref={ring} className={css["ring"]} hidden aria-hidden />
    </div>
  );
}
