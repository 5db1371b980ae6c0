import "../../i18n/en/trials";

import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { Canvas, type Pen } from "../../charts/Canvas";
import { alpha } from "../../charts/palette";
import * as format from "../../lib/format";
import { type Axis, byMetric, place, type Range, type Results, valueAt } from "./searchData";

const HEIGHT = 300;
const TOP = 40;
const BOTTOM = 24;
const SIDE = 48;
const REACH = 24;
const ABSENT = HEIGHT - 6;

/** A line per trial through its values. Dragging along an axis keeps those that pass there. */
export function ParallelCoordinates({ results, axes, metric, inside, brushes, onBrush }: { results: Results; axes: Axis[]; metric: (number | null)[]; inside: number[]; brushes: ReadonlyMap<string, Range>; onBrush: (brushes: ReadonlyMap<string, Range>) => void }) {
  const { t } = useTranslation();
  const [drag, setDrag] = useState<{ axis: Axis; from: number; to: number } | null>(null);
  const held = useRef(false);
  const bottom = HEIGHT - BOTTOM;
  const draw = ({ context, width, palette }: Pen) => {
      const step = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
      const x = (i: number): number => (axes.length > 1 ? SIDE + i * step : width / 2);
      const y = (at: number): number => bottom - at * (bottom - TOP);
      const line = (index: number): void => {
        context.beginPath();
        axes.forEach((axis, i) => {
          const at = place(axis, results, metric, index);
          // Below the axes: the hyperparameter is not there in this trial.
          const height = at === null ? ABSENT : y(at);
          if (i === 0) context.moveTo(x(i), height);
          else context.lineTo(x(i), height);
        });
        context.stroke();
      };
      const kept = new Set(inside);
      context.lineWidth = 1;
      context.strokeStyle = alpha(palette.text2, 0.12);
      if (kept.size < results.no.length) metric.forEach((value, i) => (value !== null && !kept.has(i) ? line(i) : undefined));
      const ranked = byMetric(inside, metric, results.metric_goal);
      const best = Math.max(1, Math.ceil(ranked.length / 10));
      const faint = Math.max(0.08, Math.min(0.5, 60 / Math.max(ranked.length, 1)));
      ranked.toReversed().forEach((index, i) => {
        const isBest = ranked.length - i <= best;
        context.strokeStyle = isBest ? alpha(palette.series[1] ?? palette.text, 0.9) : alpha(palette.series[0] ?? palette.text, faint);
        context.lineWidth = isBest ? 1.5 : 1;
        line(index);
      });
      axes.forEach((axis, i) => {
        context.strokeStyle = palette.line;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(x(i), TOP);
        context.lineTo(x(i), bottom);
        context.stroke();
        const brush = drag?.axis.name === axis.name ? { low: Math.min(drag.from, drag.to), high: Math.max(drag.from, drag.to) } : brushes.get(axis.name);
        if (brush) {
          context.fillStyle = alpha(palette.series[1] ?? palette.text, 0.35);
          context.fillRect(x(i) - 6, y(brush.high), 12, Math.max(2, y(brush.low) - y(brush.high)));
        }
        context.fillStyle = palette.text;
        context.textAlign = i === 0 ? "left" : i === axes.length - 1 ? "right" : "center";
        const edge = i === 0 ? 4 : i === axes.length - 1 ? width - 4 : x(i);
        context.textBaseline = "top";
        context.fillText(shortened(context, axis.name, Math.max(step - 8, 60)), edge, i % 2 === 0 ? 2 : 14);
        context.fillStyle = palette.text2;
        const ends = axis.choices.length > 0 ? [axis.choices.at(-1) ?? "", axis.choices[0] ?? ""] : [format.num(axis.high, 3), format.num(axis.low, 3)];
        context.fillText(shortened(context, ends[0] ?? "", Math.max(step - 8, 40)), edge, TOP - 13);
        context.fillText(shortened(context, ends[1] ?? "", Math.max(step - 8, 40)), edge, bottom + 4);
      });
    };
  const pointer = (kind: "down" | "move" | "up" | "leave", px: number, py: number, width: number): void => {
    const at = Math.min(1, Math.max(0, (bottom - py) / (bottom - TOP)));
    if (kind === "down") {
      const step = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
      const i = axes.length > 1 ? Math.round((px - SIDE) / step) : 0;
      const axis = axes[i];
      if (!axis || Math.abs(px - (axes.length > 1 ? SIDE + i * step : width / 2)) > REACH) return;
      held.current = true;
      setDrag({ axis, from: at, to: at });
    } else if (kind === "move" && held.current) {
      setDrag((before) => before && { ...before, to: at });
    } else if (kind === "up" && held.current) {
      held.current = false;
      if (drag) {
        const next = new Map(brushes);
        const [low, high] = [Math.min(drag.from, at), Math.max(drag.from, at)];
        // A click takes the brush away; on choices a short drag takes the nearest one.
        if (high - low < 0.02) next.delete(drag.axis.name);
        else next.set(drag.axis.name, { low, high });
        onBrush(next);
      }
      setDrag(null);
    }
  };
  const ranges = [...brushes].flatMap(([name, range]) => {
    const axis = axes.find((one) => one.name === name);
    if (!axis) return [];
    const value = (at: number): string => (axis.choices.length > 0 ? (axis.choices[Math.round(at * (axis.choices.length - 1))] ?? "") : format.num(valueAt(axis, at), 3));
    return [`${name}: ${value(range.low)} – ${value(range.high)}`];
  });
  return (
    <>
      <Canvas height={HEIGHT} label={t("search.parallelLabel", { count: inside.length, parameters: axes.map((axis) => axis.name).join(", ") })} draw={draw} onPointer={pointer} cursor="ns-resize" />
      {ranges.length > 0 ? (
        <p className="mono" style={{ fontSize: "0.75rem", margin: "4px 0 0" }} data-testid="brushes">
          {ranges.join(" · ")}
        </p>
      ) : null}
    </>
  );
}

function shortened(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}
