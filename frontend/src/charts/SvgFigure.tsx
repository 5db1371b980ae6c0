import { useElementSize } from "@mantine/hooks";
import { type ReactNode, useRef } from "react";

import { Figure, type FigureTable } from "./Figure";
import { type Key, toPicture } from "./svgFile";
import layout from "../components/layout.module.css";

/** A small drawing in SVG. Colours in it are CSS tokens. */
export function SvgFigure({
  title,
  unit,
  label,
  height,
  keys,
  table,
  testId,
  menu,
  children,
}: {
  title: string;
  unit?: string;
  label: string;
  height: number;
  keys: readonly Key[];
  table: FigureTable;
  testId: string;
  /** More entries of its menu. */
  menu?: ReactNode;
  children: (width: number) => ReactNode;
}) {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const svg = useRef<SVGSVGElement>(null);
  return (
    <Figure
      title={title}
      unit={unit}
      height={height}
      keys={keys}
      table={() => table}
      picture={() => (svg.current ? toPicture(svg.current, title, keys) : null)}
      testId={testId}
      menu={menu}
      box={ref}
    >
      {width > 0 ? (
        <svg
          ref={svg}
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={label}
          className={layout["block"]}
        >
          {children(width)}
        </svg>
      ) : null}
    </Figure>
  );
}
