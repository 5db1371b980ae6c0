import { useTranslation } from "react-i18next";

import { SvgFigure } from "../../charts/SvgFigure";
import { roundTicks } from "../../charts/series/ticks";
import * as format from "../../lib/format";
import { areaOf, type CurveContent, type HistogramContent, pointsOf } from "./mediaData";

const HEIGHT = 180;
const LEFT = 44;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 24;
const FOOT = HEIGHT - BOTTOM;

interface Axes {
  x: (value: number) => number;
  y: (value: number) => number;
  xTicks: number[];
  yTicks: number[];
}

function axesOf(width: number, [low, high]: [number, number], top: number): Axes {
  return {
    x: (value) => LEFT + ((value - low) / (high - low || 1)) * (width - LEFT - RIGHT),
    y: (value) => FOOT - (value / (top || 1)) * (FOOT - TOP),
    xTicks: roundTicks(low, high, false, Math.max(2, Math.floor(width / 90))),
    yTicks: roundTicks(0, top, false, 4),
  };
}

function Frame({ axes, width }: { axes: Axes; width: number }) {
  return (
    <>
      {axes.yTicks.map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={width - RIGHT} y1={axes.y(tick)} y2={axes.y(tick)} stroke="var(--grid)" />
          <text x={LEFT - 6} y={axes.y(tick) + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
            {format.si(tick, "", 3)}
          </text>
        </g>
      ))}
      {axes.xTicks.map((tick) => (
        <text key={tick} x={axes.x(tick)} y={HEIGHT - 6} textAnchor="middle" fontSize={11} fill="var(--text-2)">
          {format.num(tick, 3)}
        </text>
      ))}
    </>
  );
}

/** How many values lie in each bin. */
export function Histogram({ content }: { content: HistogramContent }) {
  const { t } = useTranslation();
  const { counts, edges } = content;
  const bins = counts.map((count, i) => ({ count, low: edges[i] ?? 0, high: edges[i + 1] ?? 0 }));
  const total = content.num_values ?? counts.reduce((sum, count) => sum + count, 0);
  const [low, high] = [edges[0] ?? 0, edges.at(-1) ?? 0];
  const lost = content.num_non_finite ?? 0;
  return (
    <SvgFigure
      title={t("media.kinds.histogram")}
      unit={t("media.values", { count: total, n: format.count(total) })}
      label={t("media.histogramLabel", { n: format.count(total), low: format.num(low), high: format.num(high) })}
      height={HEIGHT}
      keys={[]}
      testId="histogram"
      table={{
        head: [t("media.from"), t("media.to"), t("media.count")],
        rows: bins.map((bin) => [bin.low, bin.high, bin.count].map((raw) => ({ text: format.num(raw, 5), raw }))),
      }}
    >
      {(width) => {
        const axes = axesOf(width, [low, high], Math.max(...counts));
        return (
          <>
            <Frame axes={axes} width={width} />
            {bins.map((bin) => (
              <rect
                key={`${bin.low}:${bin.high}`}
                x={axes.x(bin.low)}
                y={axes.y(bin.count)}
                width={Math.max(1, axes.x(bin.high) - axes.x(bin.low) - 0.5)}
                height={FOOT - axes.y(bin.count)}
                fill="var(--series-0)"
              >
                <title>{`${format.num(bin.low)} – ${format.num(bin.high)}: ${format.count(bin.count)}`}</title>
              </rect>
            ))}
            {lost > 0 ? (
              <text x={width - RIGHT} y={TOP + 10} textAnchor="end" fontSize={11} fill="var(--bad)">
                {t("media.nonFinite", { count: lost, n: format.count(lost) })}
              </text>
            ) : null}
          </>
        );
      }}
    </SvgFigure>
  );
}

/** Precision over recall. */
export function PrCurve({ content }: { content: CurveContent }) {
  const { t } = useTranslation();
  const points = pointsOf(content);
  const area = format.num(areaOf(points), 3);
  return (
    <SvgFigure
      title={t("media.kinds.pr_curve")}
      unit={t("media.area", { area })}
      label={t("media.curveLabel", { count: points.length, area })}
      height={HEIGHT}
      keys={[]}
      testId="pr-curve"
      table={{
        head: [t("evaluation.recall"), t("evaluation.precision")],
        rows: points.map((point) => point.map((raw) => ({ text: format.num(raw), raw }))),
      }}
    >
      {(width) => {
        const axes = axesOf(width, [0, 1], 1);
        return (
          <>
            <Frame axes={axes} width={width} />
            <path
              d={points
                .map(([x, y], i) => `${i === 0 ? "M" : "L"}${axes.x(x).toFixed(1)} ${axes.y(y).toFixed(1)}`)
                .join("")}
              fill="none"
              stroke="var(--series-0)"
              strokeWidth={1.75}
            />
          </>
        );
      }}
    </SvgFigure>
  );
}
