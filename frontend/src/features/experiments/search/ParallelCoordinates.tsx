import "@mantine/core/styles/Slider.css";

import { ActionIcon, Group, RangeSlider, Select, Tooltip } from "@mantine/core";
import { IconArrowLeft, IconArrowRight, IconArrowsUpDown, IconX } from "@tabler/icons-react";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { EChart, type Theme } from "../../../charts/EChart";
import * as format from "../../../lib/format";
import { ABSENT, type Axis, byMetric, placeOrAbsent, type Range, type Results, valueAt } from "./searchData";
import { hasAbsent, parallelOption } from "./searchOptions";
import { useOpenTrial, useTrialRows, useTrialText } from "./SearchPlots";
import layout from "../../../components/layout.module.css";
import css from "./search.module.css";

const HEIGHT = 320;
const AXIS_WIDTH = 92;
const STEP = 0.02;

/** The order and the direction of the axes, which the reader can change. */
function useAxisOrder(given: Axis[]) {
  const [order, setOrder] = useState<readonly string[]>([]);
  const [flipped, setFlipped] = useState<ReadonlySet<string>>(new Set());
  const axes = useMemo(() => {
    const rank = (axis: Axis): number => (order.includes(axis.name) ? order.indexOf(axis.name) : given.indexOf(axis));
    return given.toSorted((a, b) => rank(a) - rank(b));
  }, [given, order]);
  const flip = (name: string): void =>
    setFlipped((before) => new Set(before.has(name) ? [...before].filter((one) => one !== name) : [...before, name]));
  const swap = (at: number, by: 1 | -1): void => {
    const names = axes.map((axis) => axis.name);
    const [mine, other] = [names[at], names[at + by]];
    if (mine === undefined || other === undefined) return;
    names[at] = other;
    names[at + by] = mine;
    setOrder(names);
  };
  return { axes, flipped, swap, flip };
}

/** A line per trial through its values. A range brushed on an axis keeps those that pass there. */
export function ParallelCoordinates({
  results,
  axes: given,
  metric,
  inside,
  good,
  brushes,
  onBrush,
}: {
  results: Results;
  axes: Axis[];
  metric: (number | null)[];
  inside: number[];
  /** Of a value of the metric, from 0 for the worst to 1. */
  good: (value: number) => number;
  brushes: ReadonlyMap<string, Range>;
  onBrush: (brushes: ReadonlyMap<string, Range>) => void;
}) {
  const { t } = useTranslation();
  const { axes, flipped, swap, flip } = useAxisOrder(given);
  const [chosen, setChosen] = useState<string | null>(null);
  const text = useTrialText(results, metric);
  const rows = useTrialRows(results, metric);
  const open = useOpenTrial(results);
  // Worst first: what is drawn last lies on top.
  const indices = useMemo(
    () =>
      byMetric(
        metric.flatMap((value, i) => (value === null ? [] : [i])),
        metric,
        results.metric_goal,
      ).toReversed(),
    [metric, results.metric_goal],
  );
  const looks = useMemo(
    () =>
      axes.map((axis) => ({
        axis,
        flipped: flipped.has(axis.name),
        absent: hasAbsent(axis, results, metric, indices),
      })),
    [axes, flipped, results, metric, indices],
  );
  const lines = useMemo(
    () => indices.map((index) => axes.map((axis) => placeOrAbsent(axis, results, metric, index))),
    [indices, axes, results, metric],
  );
  const option = useCallback(
    (theme: Theme) =>
      parallelOption(
        theme,
        looks,
        lines,
        indices.map((index) => good(metric[index] ?? 0)),
      ),
    [looks, lines, indices, good, metric],
  );
  const brush = (name: string, range: Range | null): void => {
    const next = new Map(brushes);
    if (range) next.set(name, range);
    else next.delete(name);
    onBrush(next);
  };
  const look = looks.find((one) => one.axis.name === chosen) ?? looks[0];
  const ranges = [...brushes].flatMap(([name, range]) => {
    const one = axes.find((axis) => axis.name === name);
    return one ? [`${name}: ${words(one, range.low)} – ${words(one, range.high)}`] : [];
  });
  const kept = new Set(inside);
  const indexOf = (index: number): number => indices[index] ?? 0;
  const range = (look && brushes.get(look.axis.name)) ?? { low: look?.absent ? ABSENT : 0, high: 1 };
  return (
    <>
      <EChart
        title={t("search.parallel")}
        unit={t("search.sliceNote", { count: inside.length })}
        label={t("search.parallelLabel", {
          count: inside.length,
          parameters: axes.map((axis) => axis.name).join(", "),
        })}
        height={HEIGHT}
        minWidth={axes.length * AXIS_WIDTH}
        keys={[
          { label: t("maps.best"), color: "var(--scale-4)", shape: "line" },
          { label: t("maps.worst"), color: "var(--scale-0)", shape: "line" },
        ]}
        option={option}
        describe={(_, index) => text(indexOf(index))}
        onOpen={(_, index) => open(indexOf(index))}
        spots={() => lines.flatMap((_, index) => (kept.has(indexOf(index)) ? [{ series: 0, index }] : [])).toReversed()}
        table={() => rows(byMetric(inside, metric, results.metric_goal))}
        brushes={brushes}
        onBrush={brush}
        onAxis={flip}
        testId="search-parallel"
      />
      {look ? (
        <AxisControls
          look={look}
          axes={axes}
          range={range}
          isBrushed={brushes.has(look.axis.name)}
          onChoose={setChosen}
          onBrush={(next) => brush(look.axis.name, next)}
          onMove={(by) => swap(axes.indexOf(look.axis), by)}
          onFlip={() => flip(look.axis.name)}
        />
      ) : null}
      {ranges.length > 0 ? (
        <p className={`mono ${layout["text"]} ${layout["aboveXs"]} ${layout["small"]}`} data-testid="brushes">
          {ranges.join(" · ")}
        </p>
      ) : null}
    </>
  );
}

/** Chooses an axis, brushes, moves and flips it: what a pointer does in the chart, for the keyboard. */
function AxisControls({
  look,
  axes,
  range,
  isBrushed,
  onChoose,
  onBrush,
  onMove,
  onFlip,
}: {
  look: { axis: Axis; absent: boolean };
  axes: Axis[];
  range: Range;
  isBrushed: boolean;
  onChoose: (name: string | null) => void;
  onBrush: (range: Range | null) => void;
  onMove: (by: 1 | -1) => void;
  onFlip: () => void;
}) {
  const { t } = useTranslation();
  const at = axes.indexOf(look.axis);
  const button = (label: string, icon: React.ReactNode, onClick: () => void, disabled = false) => (
    <Tooltip label={label}>
      <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={onClick} disabled={disabled}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
  return (
    <Group mt="xs" gap="sm" align="center" data-testid="axis-controls">
      <Select
        aria-label={t("plots.axis")}
        w={180}
        allowDeselect={false}
        value={look.axis.name}
        data={axes.map((axis) => axis.name)}
        onChange={onChoose}
      />
      <RangeSlider
        className={css["brush"]}
        min={look.absent ? ABSENT : 0}
        max={1}
        step={look.axis.choices.length > 1 && !look.absent ? 1 / (look.axis.choices.length - 1) : STEP}
        minRange={0}
        value={[range.low, range.high]}
        label={(value) => words(look.axis, value)}
        thumbFromLabel={t("plots.from", { axis: look.axis.name })}
        thumbToLabel={t("plots.to", { axis: look.axis.name })}
        thumbValueText={(value) => words(look.axis, value)}
        onChange={([low, high]) => onBrush(low <= (look.absent ? ABSENT : 0) && high >= 1 ? null : { low, high })}
      />
      <Group gap={2}>
        {button(t("plots.left"), <IconArrowLeft size={15} />, () => onMove(-1), at === 0)}
        {button(t("plots.right"), <IconArrowRight size={15} />, () => onMove(1), at === axes.length - 1)}
        {button(t("plots.flip"), <IconArrowsUpDown size={15} />, onFlip)}
        {button(t("plots.unbrush"), <IconX size={15} />, () => onBrush(null), !isBrushed)}
      </Group>
    </Group>
  );
}

/** A place of an axis in words: the choice that is nearest, or the value; "–" below: it has none. */
function words(axis: Axis, at: number): string {
  if (at < ABSENT / 2) return "–";
  const inside = Math.min(1, Math.max(0, at));
  return axis.choices.length > 0
    ? (axis.choices[Math.round(inside * (axis.choices.length - 1))] ?? "")
    : format.num(valueAt(axis, inside), 3);
}
