import { useTranslation } from "react-i18next";

import type { ScalingReport } from "../../api/scaling";
import type { FigureTable } from "../../charts/Figure";
import { SvgFigure } from "../../charts/SvgFigure";
import type { Key } from "../../charts/svgFile";
import { roundTicks } from "../../charts/series/ticks";
import * as format from "../../lib/format";
import { type Curve, curves, efficiencyTop, MEASURED, times } from "../../common/scaling/scalingData";

const HEIGHT = 250;
const LEFT = 52;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 28;
const WHISKER = 4;
const LABEL_PX = 34;
const MOST_TICKS = 8;
const COLORS = [
  "var(--series-0)",
  "var(--series-1)",
  "var(--series-3)",
  "var(--series-5)",
  "var(--series-4)",
  "var(--series-2)",
];

interface Scale {
  x: (slots: number) => number;
  y: (value: number) => number;
  yTicks: number[];
}

/** Slots by doublings; a speed-up too, so that the ideal is a straight line. */
function scaleOf(found: readonly Curve[], kind: "speedup" | "efficiency", width: number): Scale {
  const dots = found.flatMap((curve) => curve.dots);
  const slots = dots.map((dot) => dot.slots);
  const values = dots
    .flatMap((dot) => [dot.value, dot.low ?? dot.value, dot.high ?? dot.value])
    .filter((value) => value > 0);
  const place = (from: number, to: number, a: number, b: number) => (value: number) =>
    a + ((value - from) / (to - from || 1)) * (b - a);
  const [first, last] = [Math.min(...slots), Math.max(...slots)];
  const across =
    first === last
      ? () => (LEFT + width - RIGHT) / 2
      : place(Math.log2(first), Math.log2(last), LEFT + 10, width - RIGHT - 10);
  const x = (size: number): number => across(Math.log2(size));
  const bottom = HEIGHT - BOTTOM;
  if (kind === "efficiency") {
    const top = efficiencyTop(dots);
    const up = place(0, top, bottom, TOP);
    return { x, y: (value) => Math.max(TOP, up(value)), yTicks: roundTicks(0, top) };
  }
  const low = Math.floor(Math.log2(Math.min(first, ...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log2(Math.max(last, ...values))));
  const up = place(low, high, bottom, TOP);
  const by = Math.ceil((high - low) / MOST_TICKS);
  const yTicks = Array.from({ length: Math.floor((high - low) / by) + 1 }, (_, i) => 2 ** (low + i * by));
  // What is not above nothing has no place on such an axis; it ends at its foot.
  return { x, y: (value) => (value > 0 ? Math.min(bottom, up(Math.log2(value))) : bottom), yTicks };
}

const path = (points: [number, number][]): string =>
  points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Those whose labels do not touch the one before. */
function apart(slots: readonly number[], x: (slots: number) => number): number[] {
  const out: number[] = [];
  for (const size of slots) if (out.length === 0 || x(size) - x(out.at(-1) ?? 0) >= LABEL_PX) out.push(size);
  return out;
}

/** Speed-up or efficiency over slots, measured with intervals and predicted. */
export function CurveFigure({ report, kind }: { report: ScalingReport; kind: "speedup" | "efficiency" }) {
  const { t } = useTranslation();
  const found = curves(report, kind);
  const show = kind === "speedup" ? times : format.pct;
  const title = t(`scaling.${kind}`);
  const networks = found.filter((curve) => curve.network !== "").map((curve) => curve.network);
  const colorOf = (curve: Curve): string =>
    curve.network === "" || curve.network === MEASURED
      ? (COLORS[0] ?? "")
      : (COLORS[1 + (networks.filter((name) => name !== MEASURED).indexOf(curve.network) % (COLORS.length - 1))] ?? "");
  const nameOf = (curve: Curve): string =>
    curve.network === ""
      ? t("scaling.isMeasured")
      : curve.network === MEASURED
        ? t("scaling.isPredicted")
        : t("scaling.predictedOn", { network: curve.network });
  const keys: Key[] = [
    ...found.map((curve): Key => ({
      label: nameOf(curve),
      color: colorOf(curve),
      shape: curve.network === "" ? "line" : "dashed",
    })),
    { label: t("scaling.isIdeal"), color: "var(--text-3)", shape: "line" },
  ];
  const measured = found.find((curve) => curve.network === "")?.dots ?? [];
  const label = t("scaling.curveLabel", {
    title,
    points: measured.map((dot) => t("scaling.curvePoint", { slots: dot.slots, value: show(dot.value) })).join(", "),
  });
  const bound = (value: number | null) => ({ text: value === null ? format.MISSING : show(value), raw: value });
  const table: FigureTable = {
    head: [t("scaling.kind"), t("scaling.slots"), title, t("scaling.low"), t("scaling.high"), "n"],
    rows: found.flatMap((curve) =>
      curve.dots.map((dot) => [
        { text: nameOf(curve), raw: nameOf(curve) },
        { text: String(dot.slots), raw: dot.slots },
        bound(dot.value),
        bound(dot.low),
        bound(dot.high),
        { text: dot.n === null ? format.MISSING : String(dot.n), raw: dot.n },
      ]),
    ),
  };
  return (
    <SvgFigure title={title} label={label} height={HEIGHT} keys={keys} table={table} testId={`scaling-${kind}`}>
      {(width) => (
        <Drawing
          found={found}
          scale={scaleOf(found, kind, width)}
          kind={kind}
          width={width}
          show={show}
          colorOf={colorOf}
        />
      )}
    </SvgFigure>
  );
}

function Drawing({
  found,
  scale,
  kind,
  width,
  show,
  colorOf,
}: {
  found: Curve[];
  scale: Scale;
  kind: "speedup" | "efficiency";
  width: number;
  show: (value: number) => string;
  colorOf: (curve: Curve) => string;
}) {
  const { x, y, yTicks } = scale;
  const slots = [...new Set(found.flatMap((curve) => curve.dots.map((dot) => dot.slots)))].toSorted((a, b) => a - b);
  const ideal = (size: number): number => (kind === "speedup" ? size : 1);
  const named = apart(slots, x);
  return (
    <>
      {yTicks.map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} stroke="var(--grid)" />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
            {show(tick)}
          </text>
        </g>
      ))}
      {named.map((size) => (
        <text key={size} x={x(size)} y={HEIGHT - BOTTOM + 18} textAnchor="middle" fontSize={11} fill="var(--text-2)">
          {size}
        </text>
      ))}
      <path
        d={path(slots.map((size) => [x(size), y(ideal(size))]))}
        fill="none"
        stroke="var(--text-3)"
        strokeWidth={1}
      />
      {found.map((curve) => {
        const color = colorOf(curve);
        const banded = curve.network !== "" ? curve.dots.filter((dot) => dot.low !== null && dot.high !== null) : [];
        const around: [number, number][] = [
          ...banded.map((dot): [number, number] => [x(dot.slots), y(dot.high ?? 0)]),
          ...banded.toReversed().map((dot): [number, number] => [x(dot.slots), y(dot.low ?? 0)]),
        ];
        return (
          <g key={curve.network}>
            {banded.length > 1 ? <path d={`${path(around)}Z`} fill={color} fillOpacity={0.13} /> : null}
            <path
              d={path(curve.dots.map((dot) => [x(dot.slots), y(dot.value)]))}
              fill="none"
              stroke={color}
              strokeWidth={1.75}
              strokeDasharray={curve.network === "" ? undefined : "5 4"}
            />
            {curve.dots.map((dot) => (
              <g key={dot.slots}>
                {curve.network === "" && dot.low !== null && dot.high !== null ? (
                  <path
                    d={`${path([
                      [x(dot.slots), y(dot.low)],
                      [x(dot.slots), y(dot.high)],
                    ])}${path([
                      [x(dot.slots) - WHISKER, y(dot.low)],
                      [x(dot.slots) + WHISKER, y(dot.low)],
                    ])}${path([
                      [x(dot.slots) - WHISKER, y(dot.high)],
                      [x(dot.slots) + WHISKER, y(dot.high)],
                    ])}`}
                    fill="none"
                    stroke={color}
                    strokeWidth={1.25}
                  />
                ) : null}
                <circle
                  cx={x(dot.slots)}
                  cy={y(dot.value)}
                  r={curve.network === "" ? 3.5 : 2.5}
                  fill={curve.network === "" ? color : "var(--bg)"}
                  stroke={color}
                  strokeWidth={1.25}
                />
              </g>
            ))}
          </g>
        );
      })}
    </>
  );
}
