import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { type RefObject, useEffect, useRef } from "react";
import uPlot from "uplot";

import { type Palette, readPalette } from "../palette";

export interface Drawing {
  /** Equal signatures keep the plot and only replace its data. */
  signature: string;
  options: (palette: Palette, width: number) => uPlot.Options;
  data: uPlot.AlignedData;
  after?: (plot: uPlot, palette: Palette) => void;
}

/**
 * One uPlot per box. `build` makes the drawing from whatever it closes over (never component state
 * with points); `subscribe` says when to build again. Returns null to draw nothing.
 */
export function usePlot(
  box: RefObject<HTMLDivElement | null>,
  build: () => Drawing | null,
  subscribe: (listener: () => void) => () => void,
): RefObject<uPlot | null> {
  const plot = useRef<uPlot | null>(null);
  const scheme = useComputedColorScheme("light", { getInitialValueInEffect: false });
  const latest = useRef(build);
  latest.current = build;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const palette = readPalette();
    let signature = "";
    let width = 0;
    const draw = (): void => {
      const drawing = latest.current();
      // Asked for only until it is told: between the drawings of many charts it would lay out the page each time.
      if (drawing && width === 0) width = element.clientWidth;
      if (!drawing || width === 0) {
        plot.current?.destroy();
        plot.current = null;
        signature = "";
        return;
      }
      if (plot.current && drawing.signature === signature) {
        plot.current.setData(drawing.data);
      } else {
        plot.current?.destroy();
        plot.current = new uPlot(drawing.options(palette, width), drawing.data, element);
        signature = drawing.signature;
      }
      drawing.after?.(plot.current, palette);
    };
    draw();
    const end = subscribe(draw);
    const observer = new ResizeObserver(() => {
      width = element.clientWidth;
      if (!plot.current) draw();
      else if (width > 0 && width !== plot.current.width) plot.current.setSize({ width, height: plot.current.height });
    });
    observer.observe(element);
    return () => {
      end();
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
    // `build` is read through a ref; a new identity must not rebuild the canvas.
  }, [box, subscribe, scheme]);
  return plot;
}
