import "../../i18n/en/experiments";
import "../../i18n/en/search";
import "../../i18n/en/trials";

import { Group, Select } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { SvgFigure } from "../../charts/SvgFigure";
import { stateWord } from "../../components/StateBadge";
import * as format from "../../lib/format";
import type { Axis, Results } from "./searchData";
import { type Cell, contour, timeline } from "./searchMaps";

const LEFT = 62;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 26;
const LANES_HEIGHT = 260;
const MAP_HEIGHT = 320;
const COLORS: Record<string, string> = { COMPLETED: "var(--series-0)", STOPPED_EARLY: "var(--series-1)", FAILED: "var(--bad)", CANCELED: "var(--text-2)" };
const RUNNING = "var(--series-2)";

/** When each trial ran, side by side as they did: gaps are time without one. */
export function Timeline({ results }: { results: Results }) {
  const { t } = useTranslation();
  const [now] = useState(() => Date.now());
  const { bars, lanes, all } = timeline(results, now);
  if (bars.length === 0) return null;
  const from = Math.min(...bars.map((bar) => bar.from));
  const to = Math.max(...bars.map((bar) => bar.to), from + 1);
  const state = (index: number): string => results.state[index] ?? "";
  const states = [...new Set(bars.map((bar) => state(bar.index)))];
  const seconds = (bar: { from: number; to: number }): number => (bar.to - bar.from) / 1000;
  const note = bars.length < all ? t("maps.latest", { count: bars.length, all }) : t("maps.lanes", { count: lanes });
  return (
    <SvgFigure
      title={t("maps.timeline")}
      unit={note}
      label={t("maps.timelineLabel", { count: bars.length, lanes, duration: format.duration((to - from) / 1000) })}
      height={LANES_HEIGHT}
      keys={states.map((one) => ({ label: stateWord(t, one), color: COLORS[one] ?? RUNNING, shape: "square" as const }))}
      table={{
        head: [t("trials.trial"), t("experiments.state"), t("maps.start"), t("maps.seconds")],
        rows: bars.map((bar) => [
          { text: String(results.no[bar.index]), raw: results.no[bar.index] ?? null },
          { text: stateWord(t, state(bar.index)), raw: state(bar.index) },
          { text: format.duration((bar.from - from) / 1000), raw: (bar.from - from) / 1000 },
          { text: format.duration(seconds(bar)), raw: seconds(bar) },
        ]),
      }}
      testId="search-timeline"
    >
      {(width) => {
        const x = (when: number): number => LEFT + ((when - from) / (to - from)) * (width - LEFT - RIGHT);
        const lane = (LANES_HEIGHT - TOP - BOTTOM) / lanes;
        return (
          <>
            {bars.map((bar) => (
              <rect key={bar.index} x={x(bar.from)} y={TOP + bar.lane * lane} width={Math.max(1, x(bar.to) - x(bar.from))} height={Math.max(1, lane - (lane > 4 ? 1 : 0))} fill={COLORS[state(bar.index)] ?? RUNNING}>
                <title>{t("maps.bar", { no: results.no[bar.index], state: stateWord(t, state(bar.index)), duration: format.duration(seconds(bar)) })}</title>
              </rect>
            ))}
            <text x={LEFT} y={LANES_HEIGHT - 8} className="axis" fontSize={11} fill="var(--text-2)">0</text>
            <text x={width - RIGHT} y={LANES_HEIGHT - 8} textAnchor="end" fontSize={11} fill="var(--text-2)">{format.duration((to - from) / 1000)}</text>
            <text x={LEFT - 8} y={TOP + 10} textAnchor="end" fontSize={11} fill="var(--text-2)">{lanes}</text>
          </>
        );
      }}
    </SvgFigure>
  );
}

/** The best value over two hyperparameters. */
export function Contour({ results, axes, metric, inside }: { results: Results; axes: Axis[]; metric: (number | null)[]; inside: number[] }) {
  const { t } = useTranslation();
  const searched = axes.filter((axis) => axis.column >= 0);
  const [names, setNames] = useState<[string | null, string | null]>([null, null]);
  const across = searched.find((axis) => axis.name === names[0]) ?? searched[0];
  const up = searched.find((axis) => axis.name === names[1] && axis !== across) ?? searched.find((axis) => axis !== across);
  if (!across || !up) return null;
  const { cells, columns, rows } = contour(results, across, up, metric, inside);
  if (cells.length === 0) return null;
  const values = cells.map((cell) => cell.best);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const goodness = (value: number): number => (high === low ? 1 : results.metric_goal === "max" ? (value - low) / (high - low) : (high - value) / (high - low));
  const choose = (which: 0 | 1) => (value: string | null) => setNames((before) => (which === 0 ? [value, before[1]] : [before[0], value]));
  const name = results.metric_name ?? "";
  return (
    <>
      <Group mb="xs">
        <Select label={t("objectives.across")} w={200} allowDeselect={false} value={across.name} data={searched.map((axis) => axis.name)} onChange={choose(0)} />
        <Select label={t("objectives.up")} w={200} allowDeselect={false} value={up.name} data={searched.filter((axis) => axis !== across).map((axis) => axis.name)} onChange={choose(1)} />
      </Group>
      <SvgFigure
        title={t("maps.contour", { metric: name })}
        unit={t("maps.trials", { count: cells.reduce((sum, cell) => sum + cell.count, 0) })}
        label={t("maps.contourLabel", { metric: name, x: across.name, y: up.name, low: format.num(low), high: format.num(high) })}
        height={MAP_HEIGHT}
        keys={[
          { label: `${t("maps.best")} ${format.num(results.metric_goal === "max" ? high : low)}`, color: shade(1), shape: "square" },
          { label: `${t("maps.worst")} ${format.num(results.metric_goal === "max" ? low : high)}`, color: shade(0), shape: "square" },
        ]}
        table={{
          head: [across.name, up.name, name, t("experiments.trials")],
          rows: cells.map((cell) => [
            { text: span(across, cell.column, columns), raw: span(across, cell.column, columns) },
            { text: span(up, cell.row, rows), raw: span(up, cell.row, rows) },
            { text: format.num(cell.best), raw: cell.best },
            { text: String(cell.count), raw: cell.count },
          ]),
        }}
        testId="search-contour"
      >
        {(width) => {
          const room = { x: (width - LEFT - RIGHT) / columns, y: (MAP_HEIGHT - TOP - BOTTOM) / rows };
          const bottom = MAP_HEIGHT - BOTTOM;
          const title = (cell: Cell): string => t("maps.field", { x: span(across, cell.column, columns), y: span(up, cell.row, rows), value: format.num(cell.best), count: cell.count });
          return (
            <>
              {cells.map((cell) => (
                <rect key={`${cell.column}:${cell.row}`} x={LEFT + cell.column * room.x} y={bottom - (cell.row + 1) * room.y} width={room.x - 1} height={room.y - 1} fill={shade(goodness(cell.best))}>
                  <title>{title(cell)}</title>
                </rect>
              ))}
              {[0, columns - 1].map((at) => (
                <text key={`x${at}`} x={LEFT + (at === 0 ? 0 : columns) * room.x} y={MAP_HEIGHT - 8} textAnchor={at === 0 ? "start" : "end"} fontSize={11} fill="var(--text-2)">{end(across, at === 0)}</text>
              ))}
              {[0, rows - 1].map((at) => (
                <text key={`y${at}`} x={LEFT - 6} y={at === 0 ? bottom : TOP + 10} textAnchor="end" fontSize={11} fill="var(--text-2)">{end(up, at === 0)}</text>
              ))}
            </>
          );
        }}
      </SvgFigure>
    </>
  );
}

const shade = (goodness: number): string => `color-mix(in oklab, var(--series-0) ${Math.round(15 + 85 * goodness)}%, transparent)`;

function value(axis: Axis, at: number): number {
  if (!axis.log) return axis.low + at * (axis.high - axis.low);
  return Math.exp(Math.log(axis.low) + at * (Math.log(axis.high) - Math.log(axis.low)));
}

function end(axis: Axis, isLow: boolean): string {
  if (axis.choices.length > 0) return (isLow ? axis.choices[0] : axis.choices.at(-1)) ?? "";
  return format.num(isLow ? axis.low : axis.high, 3);
}

/** What a field covers of an axis. */
function span(axis: Axis, at: number, count: number): string {
  if (axis.choices.length > 0) return axis.choices[at] ?? "";
  return `${format.num(value(axis, at / count), 3)} – ${format.num(value(axis, (at + 1) / count), 3)}`;
}
