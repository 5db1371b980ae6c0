import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { type PointerEvent, useEffect, useRef } from "react";

import { type Palette, readPalette } from "./palette";

export interface Pen {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  palette: Palette;
}

/** A drawing as wide as its box, sharp on every screen, drawn again when width, theme or `draw` change. */
export function Canvas({ height, label, draw, onPointer, cursor }: { height: number; label: string; draw: (pen: Pen) => void; onPointer?: (kind: "down" | "move" | "up" | "leave", x: number, y: number, width: number) => void; cursor?: string }) {
  const { ref, width } = useElementSize();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = useComputedColorScheme("light", { getInitialValueInEffect: false });
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.current.width = Math.round(width * ratio);
    canvas.current.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `11px ${getComputedStyle(canvas.current).fontFamily}`;
    draw({ context, width, height, palette: readPalette() });
  }, [draw, width, height, scheme]);
  const point = (kind: "down" | "move" | "up" | "leave") => (event: PointerEvent<HTMLCanvasElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    if (kind === "down") event.currentTarget.setPointerCapture(event.pointerId);
    onPointer?.(kind, event.clientX - box.left, event.clientY - box.top, width);
  };
  return (
    <div ref={ref} style={{ width: "100%" }}>
      <canvas ref={canvas} role="img" aria-label={label} style={{ display: "block", width: "100%", height, cursor, touchAction: "pan-y" }} onPointerDown={point("down")} onPointerMove={point("move")} onPointerUp={point("up")} onPointerLeave={point("leave")} />
    </div>
  );
}
