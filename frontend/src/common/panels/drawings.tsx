import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { download, fileName } from "../../charts/export";
import { CellTable, type FigureTable, tableCsv } from "../../charts/Figure";
import css from "../../charts/chart.module.css";
import { lineStyle, readPalette } from "../../charts/palette";
import type { Source } from "../../charts/series/SeriesChart";
import { SvgFigure } from "../../charts/SvgFigure";
import { roundTicks } from "../../charts/series/ticks";
import { Menu } from "@mantine/core";
import type { Expression } from "../../lib/series/expression";
import * as format from "../../lib/format";
import { heatOf, type PairedLine, pairs, summed } from "./panelLines";
import { PanelFrame } from "./PanelFrame";
import panelCss from "./panels.module.css";

export interface Drawn {
  title: string;
  testId: string;
  height: number;
  menu: React.ReactNode;
  expressions: Expression[];
  source: Source;
}

/** Draw again when there are other points: they are read when drawing, and never kept. */
function useNewest(source: Source): void {
  const [, setTick] = useState(0);
  useEffect(() => source.subscribe(() => setTick((n) => n + 1)), [source]);
}

const cell = (name: string, value: number | null): { text: string; raw: number | null } => ({
  text: value === null ? format.MISSING : format.metric(name, value),
  raw: value,
});

// Attributes and no classes: a file of the drawing has no style sheet.
const TICK = { fontSize: 11, fill: "var(--text-2)" };
const NOTE = { fontSize: 12, fill: "var(--text-2)" };
const NAME = { fontSize: 12, fill: "var(--text)" };
const VALUE = NOTE;

/** What stands in place of a drawing without points. */
function Nothing({ source, width, height }: { source: Source; width: number; height: number }) {
  const { t } = useTranslation();
  const kind = source.error?.() ? "error" : source.ready() ? "empty" : "wait";
  return (
    <text x={width / 2} y={height / 2} textAnchor="middle" {...NOTE}>
      {t(`chart.${kind}`)}
    </text>
  );
}

const BAR_LEFT_PX = 150;
const BARS_MAX = 40;
const BAR_MAX_PX = 48;

/** The latest value of each curve as a bar. */
export function BarPanel({ title, testId, height, menu, source }: Drawn) {
  const { t } = useTranslation();
  useNewest(source);
  const palette = readPalette();
  const all = source.lines().map((line) => ({ line, ...summed(line.columns) }));
  const bars = all.slice(0, BARS_MAX);
  const values = bars.flatMap(({ last }) => (last === null ? [] : [last]));
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const tall = Math.max(18, Math.min(BAR_MAX_PX, (height - 8) / Math.max(1, bars.length)));
  const whole = values.length === 0 ? height : bars.length * tall + 8;
  const table: FigureTable = {
    head: [t("panels.line"), t("compare.statistics.last")],
    rows: all.map(({ line, last }) => [{ text: line.label, raw: line.label }, cell(line.columns.name, last)]),
  };
  return (
    <SvgFigure
      title={title}
      unit={all.length > BARS_MAX ? t("panels.someBars", { n: BARS_MAX, all: all.length }) : undefined}
      label={`${title}: ${table.rows.map(([name, value]) => `${name?.text} ${value?.text}`).join(", ")}`}
      height={whole}
      keys={[]}
      table={table}
      testId={testId}
      menu={menu}
    >
      {(width) => {
        if (values.length === 0) return <Nothing source={source} width={width} height={whole} />;
        const left = Math.min(BAR_LEFT_PX, width * 0.4);
        const room = width - left - 76;
        const x = (value: number): number => left + ((value - low) / (high - low || 1)) * room;
        return bars.map(({ line, last }, no) => (
          <g key={line.key} transform={`translate(0 ${4 + no * tall})`}>
            <text x={left - 8} y={tall / 2 + 4} textAnchor="end" {...NAME}>
              {short(line.label, left)}
              <title>{line.label}</title>
            </text>
            {last === null ? null : (
              <rect
                x={Math.min(x(0), x(last))}
                y={3}
                width={Math.max(1, Math.abs(x(last) - x(0)))}
                height={tall - 6}
                rx={2}
                fill={lineStyle(line.color, palette).stroke}
              />
            )}
            <text x={x(Math.max(0, last ?? 0)) + 6} y={tall / 2 + 4} {...VALUE}>
              {last === null ? format.MISSING : format.metric(line.columns.name, last)}
            </text>
          </g>
        ));
      }}
    </SvgFigure>
  );
}

const LETTER_PX = 6.4;
const short = (text: string, px: number): string => {
  const most = Math.max(3, Math.floor((px - 10) / LETTER_PX));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

const PLOT = { left: 58, right: 10, top: 8, bottom: 36 };

interface Frame {
  width: number;
  height: number;
  x: [number, number];
  y: [number, number];
  xName: string;
  xText: (value: number) => string;
  yText: (value: number) => string;
}

const place = (value: number, [low, high]: [number, number], from: number, to: number): number =>
  from + ((value - low) / (high - low || 1)) * (to - from);

/** Two axes with round ticks, and what the x axis is of at its end. */
function Axes({ width, height, x, y, xName, xText, yText }: Frame) {
  const bottom = height - PLOT.bottom;
  return (
    <g>
      {roundTicks(y[0], y[1]).map((tick) => {
        const at = place(tick, y, bottom, PLOT.top);
        return (
          <g key={tick}>
            <line x1={PLOT.left} x2={width - PLOT.right} y1={at} y2={at} stroke="var(--grid)" />
            <text x={PLOT.left - 6} y={at + 4} textAnchor="end" {...TICK}>
              {yText(tick)}
            </text>
          </g>
        );
      })}
      {roundTicks(x[0], x[1], false, Math.max(2, Math.floor(width / 110))).map((tick) => (
        <text
          key={tick}
          x={place(tick, x, PLOT.left, width - PLOT.right)}
          y={bottom + 15}
          textAnchor="middle"
          {...TICK}
        >
          {xText(tick)}
        </text>
      ))}
      <text x={width - PLOT.right} y={height - 4} textAnchor="end" {...TICK}>
        {xName}
      </text>
    </g>
  );
}

const padded = (values: readonly number[]): [number, number] => {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (!(high >= low)) return [0, 1];
  const pad = (high - low) * 0.04 || Math.abs(high) * 0.1 || 0.5;
  return [low - pad, high + pad];
};

/** One path for all dots of a line: a thousand elements would take as long as the whole page. */
function dots({ x, y }: PairedLine, at: (value: number) => number, up: (value: number) => number): string {
  let path = "";
  for (let i = 0; i < x.length; i += 1) {
    const [a, b] = [x[i] ?? Number.NaN, y[i] ?? Number.NaN];
    if (Number.isFinite(a) && Number.isFinite(b))
      path += `M${(at(a) - 2.5).toFixed(1)} ${up(b).toFixed(1)}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`;
  }
  return path;
}

/** Expressions against another one, a dot for each step. */
export function ScatterPanel({
  x,
  sourceOf,
  ...drawn
}: Drawn & { x: Expression; sourceOf: (names: string[]) => Source }) {
  const { title, testId, height, menu, expressions, source } = drawn;
  const { t } = useTranslation();
  useNewest(source);
  const read = useMemo(() => pairs(x, expressions, sourceOf), [x, expressions, sourceOf]);
  const palette = readPalette();
  const lines = read();
  const finite = (of: "x" | "y"): number[] => lines.flatMap((line) => Array.from(line[of]).filter(Number.isFinite));
  const [across, up] = [padded(finite("x")), padded(finite("y"))];
  const yName = expressions[0]?.text ?? "";
  const colors = new Map(lines.map((line) => [line.key, lineStyle(line.color, palette).stroke]));
  const table: FigureTable = {
    head: [t("panels.line"), t("chart.step"), x.text, yName],
    rows: lines.flatMap((line) =>
      Array.from(line.x, (value, i) => [
        { text: line.label, raw: line.label },
        { text: format.count(line.step[i]), raw: line.step[i] ?? null },
        cell(x.text, value),
        cell(yName, line.y[i] ?? null),
      ]),
    ),
  };
  return (
    <SvgFigure
      title={title}
      label={t("panels.scatterLabel", {
        x: x.text,
        y: expressions.map((one) => one.text).join(", "),
        n: table.rows.length,
      })}
      height={height}
      keys={lines
        .slice(0, 6)
        .map((line) => ({ label: line.label, color: colors.get(line.key) ?? "", shape: "circle" }))}
      table={table}
      testId={testId}
      menu={menu}
    >
      {(width) =>
        table.rows.length === 0 ? (
          <Nothing source={source} width={width} height={height} />
        ) : (
          <>
            <Axes
              width={width}
              height={height}
              x={across}
              y={up}
              xName={x.text}
              xText={(value) => format.axis(x.text, value, (across[1] - across[0]) / 6)}
              yText={(value) => format.axis(yName, value, (up[1] - up[0]) / 6)}
            />
            {lines.map((line) => (
              <path
                key={line.key}
                d={dots(
                  line,
                  (value) => place(value, across, PLOT.left, width - PLOT.right),
                  (value) => place(value, up, height - PLOT.bottom, PLOT.top),
                )}
                fill={colors.get(line.key)}
                fillOpacity={0.6}
              />
            ))}
          </>
        )
      }
    </SvgFigure>
  );
}

/** How values are distributed over the steps: the darker a field, the more points lie in it. */
export function HistogramPanel({ title, testId, height, menu, expressions, source }: Drawn) {
  const { t } = useTranslation();
  useNewest(source);
  const heat = heatOf(source.lines().map((line) => line.columns));
  const name = expressions[0]?.text ?? "";
  const edge = (value: number | undefined): string => format.num(value, 3);
  const fields = (heat?.counts ?? []).flatMap((column, i) =>
    column.flatMap((count, j) => (count > 0 ? [{ i, j, count }] : [])),
  );
  const table: FigureTable = {
    head: [t("chart.step"), name, t("panels.points")],
    rows: fields.map(({ i, j, count }) => [
      { text: format.count(Math.round(heat?.steps[i] ?? 0)), raw: heat?.steps[i] ?? null },
      { text: `${edge(heat?.values[j])} – ${edge(heat?.values[j + 1])}`, raw: heat?.values[j] ?? null },
      { text: format.count(count), raw: count },
    ]),
  };
  return (
    <SvgFigure
      title={title}
      label={t("panels.histogramLabel", { name, n: fields.length })}
      height={height}
      keys={[]}
      table={table}
      testId={testId}
      menu={menu}
    >
      {(width) => {
        if (!heat) return <Nothing source={source} width={width} height={height} />;
        const x: [number, number] = [heat.steps[0] ?? 0, heat.steps.at(-1) ?? 1];
        const y: [number, number] = [heat.values[0] ?? 0, heat.values.at(-1) ?? 1];
        const across = (value: number | undefined): number => place(value ?? 0, x, PLOT.left, width - PLOT.right);
        const up = (value: number | undefined): number => place(value ?? 0, y, height - PLOT.bottom, PLOT.top);
        return (
          <>
            <Axes
              width={width}
              height={height}
              x={x}
              y={y}
              xName={t("chart.step")}
              xText={(value) => format.si(value, "", 3)}
              yText={(value) => format.axis(name, value, (y[1] - y[0]) / 6)}
            />
            {fields.map(({ i, j, count }) => (
              <rect
                key={`${i}:${j}`}
                x={across(heat.steps[i])}
                y={up(heat.values[j + 1])}
                width={Math.max(0.5, across(heat.steps[i + 1]) - across(heat.steps[i]) - 0.5)}
                height={Math.max(0.5, up(heat.values[j]) - up(heat.values[j + 1]) - 0.5)}
                fill="var(--series-0)"
                fillOpacity={0.12 + 0.88 * (count / heat.most)}
              />
            ))}
          </>
        );
      }}
    </SvgFigure>
  );
}

/** Every curve in numbers. */
export function TablePanel({ title, testId, height, menu, source }: Drawn) {
  const { t } = useTranslation();
  useNewest(source);
  const table: FigureTable = {
    head: [
      t("panels.line"),
      ...(["last", "min", "max", "mean"] as const).map((one) => t(`panels.statistic.${one}`)),
      t("panels.points"),
    ],
    rows: source.lines().map(({ label, columns }) => {
      const found = summed(columns);
      return [
        { text: label, raw: label },
        ...[found.last, found.min, found.max, found.mean].map((value) => cell(columns.name, value)),
        { text: format.count(found.points), raw: found.points },
      ];
    }),
  };
  const save = (): void => download(`${fileName(title)}.csv`, tableCsv(table), "text/csv");
  const more = (
    <>
      {menu}
      <Menu.Item onClick={save}>{t("panels.csv")}</Menu.Item>
    </>
  );
  return (
    <PanelFrame title={title} testId={testId} menu={more}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <div className={`${css["table"]} ${panelCss["numbers"]}`} style={{ maxHeight: height + 60 }} tabIndex={0}>
        <CellTable table={table} label={title} />
        {table.rows.length === 0 ? <p className="dim">{t("chart.empty")}</p> : null}
      </div>
    </PanelFrame>
  );
}
