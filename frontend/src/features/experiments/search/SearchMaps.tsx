import { Group, Select } from "@mantine/core";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { EChart, type Theme } from "../../../charts/EChart";
import { stateWord } from "../../../components/StateBadge";
import * as format from "../../../lib/format";
import { type Axis, goodness, type Results } from "./searchData";
import { contourOption, type Lane, timelineOption } from "./searchMapOptions";
import { binsOf, contour, spanOf, timeline } from "./searchMaps";
import { type Kind, KIND_COLORS, kindOf } from "./searchOptions";
import { useOpenTrial } from "./SearchPlots";

const LANES_HEIGHT = 260;
const MAP_HEIGHT = 340;
const KINDS: readonly Kind[] = ["outside", "completed", "stopped", "failed", "running"];

/** When each trial ran, side by side as they did: gaps are time without one. */
export function Timeline({ results, inside, isBrushed }: { results: Results; inside: number[]; isBrushed: boolean }) {
  const { t } = useTranslation();
  const open = useOpenTrial(results);
  const [now] = useState(() => Date.now());
  const made = useMemo(() => {
    const { bars, lanes, all } = timeline(results, now);
    const kept = isBrushed ? new Set(inside) : null;
    const kinds = KINDS.map((kind): Lane => ({
      kind,
      bars: bars.filter(
        (bar) => (kept && !kept.has(bar.index) ? "outside" : kindOf(results.state[bar.index] ?? "")) === kind,
      ),
    })).filter((one) => one.bars.length > 0);
    const from = bars[0]?.from ?? 0;
    const to = bars.reduce((most, bar) => Math.max(most, bar.to), from + 1);
    return { bars, lanes, all, kinds, from, to };
  }, [results, now, inside, isBrushed]);
  const { bars, lanes, all, kinds, from, to } = made;
  const option = useCallback((theme: Theme) => timelineOption(theme, kinds, from, to, lanes), [kinds, from, to, lanes]);
  if (bars.length === 0) return null;
  const seconds = (bar: { from: number; to: number }): number => (bar.to - bar.from) / 1000;
  const state = (index: number): string => stateWord(t, results.state[index] ?? "");
  return (
    <EChart
      title={t("maps.timeline")}
      unit={bars.length < all ? t("maps.latest", { count: bars.length, all }) : t("maps.lanes", { count: lanes })}
      label={t("maps.timelineLabel", { count: bars.length, lanes, duration: format.duration((to - from) / 1000) })}
      height={LANES_HEIGHT}
      keys={kinds.map(({ kind }) => ({
        label: t(`plots.kind.${kind}`),
        color: KIND_COLORS[kind],
        shape: "square" as const,
      }))}
      option={option}
      describe={(series, index) => {
        const bar = kinds[series]?.bars[index];
        return bar
          ? t("maps.bar", {
              no: results.no[bar.index],
              state: state(bar.index),
              duration: format.duration(seconds(bar)),
            })
          : null;
      }}
      onOpen={(series, index) => {
        const bar = kinds[series]?.bars[index];
        if (bar) open(bar.index);
      }}
      spots={() =>
        kinds
          .flatMap((one, series) =>
            one.bars.map((bar, index) => ({
              series,
              index,
              from: bar.from,
              at: [((bar.from + bar.to) / 2 - from) / (to - from), bar.lane] as [number, number],
            })),
          )
          .toSorted((a, b) => a.from - b.from)
      }
      table={() => ({
        head: [t("trials.trial"), t("experiments.state"), t("maps.start"), t("maps.seconds")],
        rows: bars.map((bar) => [
          { text: String(results.no[bar.index]), raw: results.no[bar.index] ?? null },
          { text: state(bar.index), raw: results.state[bar.index] ?? "" },
          { text: format.duration((bar.from - from) / 1000), raw: (bar.from - from) / 1000 },
          { text: format.duration(seconds(bar)), raw: seconds(bar) },
        ]),
      })}
      testId="search-timeline"
    />
  );
}

/** The best value over two hyperparameters. */
export function Contour({
  results,
  axes,
  metric,
  inside,
  scale,
}: {
  results: Results;
  axes: Axis[];
  metric: (number | null)[];
  inside: number[];
  scale: Parameters<typeof goodness>[2];
}) {
  const { t } = useTranslation();
  const [names, setNames] = useState<[string | null, string | null]>([null, null]);
  const made = useMemo(() => {
    const searched = axes.filter((axis) => axis.column >= 0);
    const across = searched.find((axis) => axis.name === names[0]) ?? searched[0];
    const up =
      searched.find((axis) => axis.name === names[1] && axis !== across) ?? searched.find((axis) => axis !== across);
    if (!across || !up) return null;
    const { cells } = contour(results, across, up, metric, inside);
    const values = cells.map((cell) => cell.best);
    return { cells, low: Math.min(...values), high: Math.max(...values), searched, across, up };
  }, [results, axes, names, metric, inside]);
  const isMax = results.metric_goal === "max";
  const option = useCallback(
    (theme: Theme) => {
      if (!made) return {};
      const { cells, across, up } = made;
      const good = goodness(
        cells.map((cell) => cell.best),
        results.metric_goal,
        scale,
      );
      return contourOption(theme, cells, good, edges(across), edges(up), [across.name, up.name]);
    },
    [made, results.metric_goal, scale],
  );
  if (!made || made.cells.length === 0) return null;
  const { searched, across, up, cells, low, high } = made;
  const choose = (which: 0 | 1) => (value: string | null) =>
    setNames((before) => (which === 0 ? [value, before[1]] : [before[0], value]));
  const name = results.metric_name ?? "";
  const field = (index: number): string | null => {
    const cell = cells[index];
    return cell
      ? t("maps.field", {
          x: span(across, cell.column),
          y: span(up, cell.row),
          value: format.num(cell.best),
          count: cell.count,
        })
      : null;
  };
  return (
    <>
      <Group mb="xs">
        <Select
          label={t("objectives.across")}
          w={200}
          allowDeselect={false}
          value={across.name}
          data={searched.map((axis) => axis.name)}
          onChange={choose(0)}
        />
        <Select
          label={t("objectives.up")}
          w={200}
          allowDeselect={false}
          value={up.name}
          data={searched.filter((axis) => axis !== across).map((axis) => axis.name)}
          onChange={choose(1)}
        />
      </Group>
      <EChart
        title={t("maps.contour", { metric: name })}
        unit={t("maps.trials", { count: cells.reduce((sum, cell) => sum + cell.count, 0) })}
        label={t("maps.contourLabel", {
          metric: name,
          x: across.name,
          y: up.name,
          low: format.num(low),
          high: format.num(high),
        })}
        height={MAP_HEIGHT}
        keys={[
          { label: `${t("maps.best")} ${format.num(isMax ? high : low)}`, color: "var(--scale-4)", shape: "square" },
          { label: `${t("maps.worst")} ${format.num(isMax ? low : high)}`, color: "var(--scale-0)", shape: "square" },
        ]}
        option={option}
        describe={(_, index) => field(index)}
        spots={() => cells.map((cell, index) => ({ series: 0, index, at: [cell.column, cell.row] }))}
        table={() => ({
          head: [across.name, up.name, name, t("experiments.trials")],
          rows: cells.map((cell) => [
            { text: span(across, cell.column), raw: span(across, cell.column) },
            { text: span(up, cell.row), raw: span(up, cell.row) },
            { text: format.num(cell.best), raw: cell.best },
            { text: String(cell.count), raw: cell.count },
          ]),
        })}
        testId="search-contour"
      />
    </>
  );
}

/** The words under the fields: choices, levels, or where each begins. */
const edges = (axis: Axis): string[] =>
  axis.choices.length > 0
    ? axis.choices
    : Array.from({ length: binsOf(axis) }, (_, row) => format.num(spanOf(axis, row)[0], axis.isInteger ? 6 : 2));

/** What a field covers of an axis. */
function span(axis: Axis, row: number): string {
  if (axis.choices.length > 0) return axis.choices[row] ?? "";
  const [low, high] = spanOf(axis, row);
  return low === high ? format.num(low) : `${format.num(low, 3)} – ${format.num(high, 3)}`;
}
