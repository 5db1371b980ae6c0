import type { KeyboardEvent, RefObject } from "react";
import uPlot from "uplot";

import { moved, type XKind } from "../../lib/series/axis";
import type { Window } from "./plotOptions";

/** Cursor, zoom and move by keyboard; true when the key was one of theirs. */
export function keyPressed(
  event: KeyboardEvent,
  plot: RefObject<uPlot | null>,
  x: XKind,
  zoomTo: (range: Window | null) => void,
  speak: (at: number) => void,
): boolean {
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
  else if (event.shiftKey && (key === "ArrowLeft" || key === "ArrowRight"))
    zoomTo(
      moved(
        range,
        key === "ArrowLeft" ? "left" : "right",
        center,
        x === "wall" ? range.from - (range.to - range.from) : 0,
      ),
    );
  else if (key === "ArrowLeft" || key === "ArrowRight" || key === "Home" || key === "End") {
    const from = idx ?? (key === "ArrowRight" ? -1 : xs.length);
    const next =
      key === "Home"
        ? 0
        : key === "End"
          ? xs.length - 1
          : Math.min(xs.length - 1, Math.max(0, from + (key === "ArrowLeft" ? -1 : 1)));
    u.setCursor({ left: u.valToPos(xs[next] ?? 0, "x"), top: u.bbox.height / uPlot.pxRatio / 2 });
    speak(xs[next] ?? 0);
  } else return false;
  return true;
}
