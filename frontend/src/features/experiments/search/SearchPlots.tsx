import { Group, SegmentedControl, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, searchImportance } from "../../../api/queries";
import { EChart, type Theme } from "../../../charts/EChart";
import type { FigureTable } from "../../../charts/Figure";
import type { Key } from "../../../charts/svgFile";
import { Empty, Section } from "../../../components/basics";
import { QueryView } from "../../../components/QueryView";
import { stateWord } from "../../../components/StateBadge";
import * as format from "../../../lib/format";
import { fromWire } from "../../../lib/format";
import {
  type Axis,
  bestSoFar,
  extremes,
  isLogAxis,
  objectiveAxis,
  objectiveDots,
  placeOrAbsent,
  type Results,
  scaled,
} from "./searchData";
import { importanceOption } from "./searchMapOptions";
import {
  type Cloud,
  clouds,
  corners,
  type Kind,
  KIND_COLORS,
  placeAxis,
  type Point,
  scatterOption,
  spotsOf,
  symbolOf,
  ticksOf,
  timeTicksOf,
} from "./searchOptions";
import layout from "../../../components/layout.module.css";

const HEIGHT = 260;
const TIP_PARAMETERS = 12;
const cell = (value: number | string | null): { text: string; raw: string | number | null } => ({
  text: typeof value === "number" ? format.num(value) : (value ?? "–"),
  raw: value,
});

/** A trial in words: its number, state, values and hyperparameters. */
export function useTrialText(results: Results, metric: (number | null)[]): (index: number) => string {
  const { t } = useTranslation();
  return useCallback(
    (index: number): string => {
      const lines = [`${t("trial.no", { no: results.no[index] ?? 0 })} · ${stateWord(t, results.state[index] ?? "")}`];
      if (results.objectives.length === 0)
        lines.push(`${results.metric_name ?? ""} ${format.num(metric[index] ?? null)}`);
      for (const one of results.objectives)
        lines.push(`${one.metric} ${format.num(fromWire(one.values[index] ?? null))}`);
      results.parameters.slice(0, TIP_PARAMETERS).forEach((parameter, column) => {
        const raw = results.values[column]?.[index] ?? null;
        if (raw !== null) lines.push(`${parameter.name} ${typeof raw === "number" ? format.num(raw) : raw}`);
      });
      if (results.parameters.length > TIP_PARAMETERS)
        lines.push(t("plots.more", { count: results.parameters.length - TIP_PARAMETERS }));
      return lines.join("\n");
    },
    [results, metric, t],
  );
}

/** Opens the page of a trial, given its place in the results. */
export function useOpenTrial(results: Results): (index: number) => void {
  const navigate = useNavigate();
  return useCallback(
    (index: number) => void navigate({ to: "/trials/$trialId", params: { trialId: String(results.id[index]) } }),
    [navigate, results],
  );
}

export function useKindKeys(kinds: readonly Kind[]): Key[] {
  const { t } = useTranslation();
  return kinds.map((kind) => ({ label: t(`plots.kind.${kind}`), color: KIND_COLORS[kind], shape: symbolOf(kind) }));
}

/** The trials of some points as rows: number, state, metric and hyperparameters. */
export function useTrialRows(results: Results, metric: (number | null)[]): (indices: readonly number[]) => FigureTable {
  const { t } = useTranslation();
  return (indices) => ({
    head: [
      t("trials.trial"),
      t("experiments.state"),
      ...(results.objectives.length > 0
        ? results.objectives.map((one) => one.metric)
        : [results.metric_name ?? t("experiment.metric")]),
      ...results.parameters.map((one) => one.name),
    ],
    rows: indices.map((i) => [
      { text: String(results.no[i]), raw: results.no[i] ?? null },
      { text: stateWord(t, results.state[i] ?? ""), raw: results.state[i] ?? "" },
      ...(results.objectives.length > 0
        ? results.objectives.map((one) => cell(fromWire(one.values[i] ?? null)))
        : [cell(metric[i] ?? null)]),
      ...results.parameters.map((_, column) => cell(results.values[column]?.[i] ?? null)),
    ]),
  });
}

interface Data {
  results: Results;
  metric: (number | null)[];
  /** Of the trials that the brushes keep. */
  inside: number[];
  isBrushed: boolean;
  /** Whether the metric has a logarithmic axis; undefined: as its values suggest. */
  isLog: boolean | undefined;
}

interface CloudProps extends Omit<Data, "isLog"> {
  testId: string;
  title: string;
  unit?: string;
  label: string;
  height?: number;
  all: Cloud[];
  keys: Key[];
  x: (theme: Theme) => ReturnType<typeof placeAxis>;
  y: (theme: Theme) => ReturnType<typeof placeAxis>;
  line?: [number, number][];
  isStep?: boolean;
}

/** Points of trials over two axes. */
function CloudChart({
  results,
  metric,
  testId,
  title,
  unit,
  label,
  height = HEIGHT,
  all,
  keys,
  x,
  y,
  line,
  isStep = false,
}: CloudProps) {
  const text = useTrialText(results, metric);
  const open = useOpenTrial(results);
  const rows = useTrialRows(results, metric);
  const option = useCallback(
    (theme: Theme) => scatterOption(theme, all, x(theme), y(theme), line ?? [], isStep),
    [all, x, y, line, isStep],
  );
  const indexOf = (series: number, index: number): number | undefined => all[series]?.points[index]?.index;
  const ofTrial = <T,>(series: number, index: number, then: (trial: number) => T): T | null => {
    const trial = indexOf(series, index);
    return trial === undefined ? null : then(trial);
  };
  return (
    <EChart
      title={title}
      unit={unit}
      label={label}
      height={height}
      keys={keys}
      testId={testId}
      option={option}
      describe={(series, index) => ofTrial(series, index, text)}
      onOpen={(series, index) => ofTrial(series, index, open)}
      spots={() => spotsOf(all)}
      table={() => rows(spotsOf(all).flatMap(({ series, index }) => indexOf(series, index) ?? []))}
    />
  );
}

/** Every trial's value, and the best so far: by number, or by the time when it ended. */
export function History(data: Data) {
  const { results, metric, inside, isBrushed, isLog } = data;
  const { t } = useTranslation();
  const [by, setBy] = useState<"no" | "time">("no");
  const made = useMemo(() => {
    const ended = results.ended_at.map((at) => (at ? Date.parse(at) : null));
    const starts = results.started_at.flatMap((at) => (at ? [Date.parse(at)] : []));
    const begin = extremes(starts)[0] ?? extremes(ended.filter((at) => at !== null))[0] ?? 0;
    const along = (i: number): number | null => {
      const at = ended[i] ?? null;
      return by === "no" ? (results.no[i] ?? null) : at === null ? null : Math.max(0, (at - begin) / 1000);
    };
    const found = metric.flatMap((value, index) => {
      const x = along(index);
      return value === null || x === null ? [] : [{ index, x, value }];
    });
    found.sort((a, b) => a.x - b.x || a.index - b.index);
    const [low = 0, high = 0] = extremes(found.map((one) => one.x));
    const [least = 0, most = 0] = extremes(found.map((one) => one.value));
    const xAxis: Axis = {
      name: "",
      column: -1,
      log: false,
      choices: [],
      low: by === "time" ? 0 : low,
      high: Math.max(high, low),
    };
    const yAxis: Axis = {
      name: "",
      column: -1,
      log: isLogAxis(least, most, isLog),
      choices: [],
      low: least,
      high: most,
    };
    const points: Point[] = found.map(({ index, x, value }) => ({
      index,
      x: scaled(xAxis, x),
      y: scaled(yAxis, value),
    }));
    const best = bestSoFar(
      found.map((one) => one.value),
      results.metric_goal,
    );
    const steps = points.map((point, i) => ({ x: point.x, y: scaled(yAxis, best[i] ?? 0) }));
    return {
      xAxis,
      yAxis,
      all: clouds(points, results, isBrushed ? new Set(inside) : null),
      line: corners(steps),
      last: best.at(-1) ?? null,
    };
  }, [results, metric, inside, isBrushed, by, isLog]);
  const { xAxis, yAxis, all, line, last } = made;
  const x = useCallback(
    (theme: Theme) =>
      placeAxis(
        by === "time" ? timeTicksOf(xAxis) : ticksOf(xAxis, (value) => (Number.isInteger(value) ? `#${value}` : "")),
        theme,
      ),
    [xAxis, by],
  );
  const y = useCallback((theme: Theme) => placeAxis(ticksOf(yAxis), theme, { lines: true }), [yAxis]);
  const kinds = useKindKeys(all.map((cloud) => cloud.kind).toReversed());
  const num = all.reduce((sum, cloud) => sum + cloud.points.length, 0);
  return (
    <Section title={t("search.history")} note={t("search.withValue", { num, all: results.no.length })}>
      <Group mb="xs">
        <SegmentedControl
          aria-label={t("plots.historyBy")}
          size="xs"
          value={by}
          onChange={(value) => setBy(value as "no" | "time")}
          data={[
            { value: "no", label: t("plots.byNo") },
            { value: "time", label: t("plots.byTime") },
          ]}
        />
      </Group>
      <CloudChart
        {...data}
        testId="search-history"
        title={results.metric_name ?? ""}
        unit={yAxis.log ? t("search.logAxis") : undefined}
        label={t(by === "no" ? "search.historyLabel" : "plots.historyTimeLabel", {
          metric: results.metric_name ?? "",
          count: num,
          best: format.num(last),
        })}
        all={all}
        keys={[
          ...kinds,
          { label: t("plots.bestSoFar", { best: format.num(last) }), color: "var(--series-1)", shape: "line" },
        ]}
        x={x}
        y={y}
        line={line}
        isStep
      />
    </Section>
  );
}

/** One hyperparameter against the metric. */
export function Slice({ axes: all, ...data }: Data & { axes: Axis[] }) {
  const { results, metric, inside, isBrushed } = data;
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<string | null>(null);
  const made = useMemo(() => {
    const searched = all.filter((one) => one.column >= 0);
    const axis = searched.find((one) => one.name === chosen) ?? searched[0];
    const yAxis = all.at(-1);
    if (!axis || !yAxis) return null;
    const points = metric.flatMap((value, index): Point[] =>
      value === null ? [] : [{ index, x: placeOrAbsent(axis, results, metric, index), y: scaled(yAxis, value) }],
    );
    return {
      searched,
      axis,
      yAxis,
      all: clouds(points, results, isBrushed ? new Set(inside) : null),
      absent: points.filter((point) => point.x < 0).length,
    };
  }, [all, chosen, results, metric, inside, isBrushed]);
  const x = useCallback(
    (theme: Theme) => placeAxis(made ? ticksOf(made.axis) : [], theme, { absent: made !== null && made.absent > 0 }),
    [made],
  );
  const y = useCallback((theme: Theme) => placeAxis(made ? ticksOf(made.yAxis) : [], theme, { lines: true }), [made]);
  const keys = useKindKeys((made?.all ?? []).map((cloud) => cloud.kind).toReversed());
  if (made === null || made.all.length === 0) return null;
  const { searched, axis } = made;
  const absent = made.absent > 0 ? ` · ${t("plots.absent", { count: made.absent })}` : "";
  return (
    <Section title={t("search.slice")} note={`${t("search.sliceNote", { count: inside.length })}${absent}`}>
      <Select
        aria-label={t("search.parameter")}
        w={220}
        mb="xs"
        allowDeselect={false}
        value={axis.name}
        data={searched.map((one) => one.name)}
        onChange={setChosen}
      />
      <CloudChart
        {...data}
        testId="search-slice"
        title={t("plots.against", { y: results.metric_name ?? "", x: axis.name })}
        unit={axis.log ? t("plots.logX") : undefined}
        label={t("search.sliceLabel", {
          parameter: axis.name,
          metric: results.metric_name ?? "",
          count: inside.length,
        })}
        all={made.all}
        keys={keys}
        x={x}
        y={y}
      />
    </Section>
  );
}

/** Two objectives against each other, and the trials that no other one beats in all of them. */
export function Objectives({ table, ...data }: Data & { table: ReactNode }) {
  const { results, inside, isBrushed } = data;
  const { t } = useTranslation();
  const [across, setAcross] = useState(0);
  const [up, setUp] = useState(1);
  const made = useMemo(() => {
    const xAxis = objectiveAxis(results, across);
    const yAxis = objectiveAxis(results, up);
    if (!xAxis || !yAxis) return null;
    const kept = isBrushed ? new Set(inside) : null;
    const dots = objectiveDots(results, across, up).map((dot) => ({
      ...dot,
      point: { index: dot.index, x: dot.at, y: scaled(yAxis, dot.y) },
    }));
    const of = (kind: Kind, pick: (dot: (typeof dots)[number]) => boolean): Cloud => ({
      kind,
      points: dots.filter(pick).map((dot) => dot.point),
    });
    const isKept = (dot: { index: number }): boolean => kept === null || kept.has(dot.index);
    const all = [
      of("outside", (dot) => !isKept(dot)),
      of("stopped", (dot) => isKept(dot) && dot.faint),
      of("completed", (dot) => isKept(dot) && !dot.faint),
    ].filter((cloud) => cloud.points.length > 0);
    const line = dots
      .filter((dot) => !dot.faint)
      .map((dot): [number, number] => [dot.point.x, dot.point.y])
      .toSorted((a, b) => a[0] - b[0]);
    return { xAxis, yAxis, all, line, count: dots.length };
  }, [results, across, up, inside, isBrushed]);
  const x = useCallback((theme: Theme) => placeAxis(made ? ticksOf(made.xAxis) : [], theme), [made]);
  const y = useCallback((theme: Theme) => placeAxis(made ? ticksOf(made.yAxis) : [], theme, { lines: true }), [made]);
  if (!made) return <Empty title={t("objectives.none")} />;
  const { xAxis, yAxis, all, line, count } = made;
  const names = results.objectives.map((one, i) => ({ value: String(i), label: one.metric }));
  const keys: Key[] = [
    { label: t("objectives.front"), color: KIND_COLORS.completed, shape: "circle" },
    { label: t("objectives.beaten"), color: KIND_COLORS.stopped, shape: "triangle" },
  ];
  return (
    <Section
      title={t("objectives.title")}
      note={t("objectives.note", { count: results.front.length, all: results.no.length })}
    >
      {results.objectives.length > 2 ? (
        <Group mb="xs">
          <Select
            label={t("objectives.across")}
            w={220}
            allowDeselect={false}
            value={String(across)}
            data={names}
            onChange={(value) => setAcross(Number(value))}
          />
          <Select
            label={t("objectives.up")}
            w={220}
            allowDeselect={false}
            value={String(up)}
            data={names}
            onChange={(value) => setUp(Number(value))}
          />
        </Group>
      ) : null}
      <CloudChart
        {...data}
        testId="search-objectives"
        title={`${yAxis.name} ↑ · ${xAxis.name} →`}
        label={t("objectives.label", { x: xAxis.name, y: yAxis.name, count })}
        all={all}
        keys={keys}
        x={x}
        y={y}
        line={line}
      />
      <p className={`dim ${layout["text"]} ${layout["aboveXs"]} ${layout["belowM"]} ${layout["small"]}`}>
        {t("objectives.key")}
      </p>
      {table}
    </Section>
  );
}

/** How much each hyperparameter explains. */
export function Importance({ experiment }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const query = useQuery(searchImportance(experiment.id));
  return (
    <QueryView query={query}>
      {(found) => (
        <Section title={t("search.importance")} note={t("search.importanceFrom", { count: found.num_trials })}>
          {found.shares === null ? (
            <Empty title={t("search.noImportance")}>{t("search.noImportanceHint", { count: found.min_trials })}</Empty>
          ) : (
            <Shares shares={found.shares} count={found.num_trials} />
          )}
        </Section>
      )}
    </QueryView>
  );
}

function Shares({ shares: given, count }: { shares: Record<string, number>; count: number }) {
  const { t } = useTranslation();
  const shares = useMemo(() => Object.entries(given).toSorted((a, b) => b[1] - a[1]), [given]);
  const option = useCallback((theme: Theme) => importanceOption(theme, shares), [shares]);
  const words = shares.map(([name, share]) => `${name} ${format.pct(share)}`);
  return (
    <EChart
      title={t("search.importance")}
      label={t("plots.importanceLabel", { count, shares: words.slice(0, 8).join(", ") })}
      height={16 + shares.length * 26}
      keys={[]}
      testId="importance"
      option={option}
      describe={(_, index) => words[index] ?? null}
      spots={() => shares.map((_, index) => ({ series: 0, index }))}
      table={() => ({
        head: [t("search.parameter"), t("search.importance")],
        rows: shares.map(([name, share]) => [
          { text: name, raw: name },
          { text: format.pct(share), raw: share },
        ]),
      })}
    />
  );
}
