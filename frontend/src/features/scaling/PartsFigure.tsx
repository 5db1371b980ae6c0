import { useTranslation } from "react-i18next";

import type { ScalingSize } from "../../api/scaling";
import type { FigureTable } from "../../charts/Figure";
import { SvgFigure } from "../../charts/SvgFigure";
import { roundTicks } from "../../charts/series/ticks";
import * as format from "../../lib/format";
import { LEAST_SHARE } from "../../lib/series/perf";
import { type Part, PARTS } from "../../common/scaling/scalingData";

const HEIGHT = 250;
const LEFT = 52;
const RIGHT = 14;
const TOP = 22;
const BOTTOM = 28;
const WIDEST = 72;
const COLORS: Record<Part, string> = {
  compute: "var(--series-0)",
  optimizer: "var(--series-5)",
  data: "var(--series-1)",
  transfer: "var(--series-2)",
  wait: "var(--part-bubble)",
  other: "var(--series-4)",
};

/** A step of each world size, cut into its parts. */
export function PartsFigure({ sizes }: { sizes: ScalingSize[] }) {
  const { t } = useTranslation();
  const slowest = Math.max(...sizes.map((size) => size.step_ms.value));
  const there = PARTS.filter((part) => sizes.some((size) => (size.parts_ms[part] ?? 0) > slowest * LEAST_SHARE));
  const title = t("scaling.parts");
  const table: FigureTable = {
    head: [
      t("scaling.slots"),
      ...PARTS.map((part) => t(`scaling.part.${part}`)),
      t("scaling.step"),
      t("scaling.hidden"),
    ],
    rows: sizes.map((size) => {
      const ms = (value: number | null) => ({ text: format.ms(value), raw: value });
      return [
        { text: String(size.slots), raw: size.slots },
        ...PARTS.map((part) => ms(size.parts_ms[part] ?? null)),
        ms(size.step_ms.value),
        ms(size.hidden_ms),
      ];
    }),
  };
  const label = t("scaling.curveLabel", {
    title,
    points: sizes
      .map((size) => t("scaling.curvePoint", { slots: size.slots, value: format.ms(size.step_ms.value) }))
      .join(", "),
  });
  return (
    <SvgFigure
      title={title}
      unit="ms"
      label={label}
      height={HEIGHT}
      keys={there.map((part) => ({ label: t(`scaling.part.${part}`), color: COLORS[part], shape: "square" }))}
      table={table}
      testId="scaling-parts"
    >
      {(width) => <Bars sizes={sizes} width={width} />}
    </SvgFigure>
  );
}

const summed = (size: ScalingSize): number =>
  PARTS.reduce((sum, part) => sum + Math.max(0, size.parts_ms[part] ?? 0), 0);

function Bars({ sizes, width }: { sizes: ScalingSize[]; width: number }) {
  const top = Math.max(...sizes.map((size) => Math.max(summed(size), size.step_ms.value)), 1e-9);
  const bottom = HEIGHT - BOTTOM;
  const y = (value: number): number => bottom - (value / top) * (bottom - TOP);
  const room = (width - LEFT - RIGHT) / sizes.length;
  const bar = Math.min(WIDEST, room * 0.7);
  return (
    <>
      {roundTicks(0, top).map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} stroke="var(--grid)" />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
            {format.num(tick, 3)}
          </text>
        </g>
      ))}
      {sizes.map((size, i) => {
        const middle = LEFT + (i + 0.5) * room;
        let under = 0;
        return (
          <g key={size.slots}>
            {PARTS.map((part) => {
              const value = Math.max(0, size.parts_ms[part] ?? 0);
              const from = under;
              under += value;
              return value > 0 ? (
                <rect
                  key={part}
                  x={middle - bar / 2}
                  width={bar}
                  y={y(under)}
                  height={y(from) - y(under)}
                  fill={COLORS[part]}
                />
              ) : null;
            })}
            <text x={middle} y={y(under) - 6} textAnchor="middle" fontSize={11} fill="var(--text)">
              {format.ms(size.step_ms.value)}
            </text>
            <text x={middle} y={bottom + 18} textAnchor="middle" fontSize={11} fill="var(--text-2)">
              {size.slots}
            </text>
          </g>
        );
      })}
    </>
  );
}
