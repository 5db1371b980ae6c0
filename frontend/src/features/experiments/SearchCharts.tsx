import "../../i18n/en/experiments";
import "../../i18n/en/trials";

import { Button, Group, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, searchImportance, searchResults } from "../../api/queries";
import { Canvas, type Pen } from "../../charts/Canvas";
import { alpha } from "../../charts/palette";
import { Empty, Section } from "../../components/basics";
import { DataTable } from "../../components/DataTable";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import "../../i18n/en/search";
import * as format from "../../lib/format";
import { fromWire } from "../../lib/format";
import { ParallelCoordinates } from "./ParallelCoordinates";
import { Population } from "./Population";
import { roundTicks } from "./rungs";
import { Contour, Timeline } from "./SearchMaps";
import { type Axis, axes, bestSoFar, byMetric, extremes, matching, metrics, objectiveAxis, objectiveDots, place, type Range, type Results, scaled } from "./searchData";

const TABLE_ROWS = 20;
const HEIGHT = 260;
const LEFT = 62;
const BOTTOM = 26;
const TOP = 10;

/** What all trials of a search have come to. Loaded when it is looked at. */
export function SearchCharts({ experiment }: { experiment: ExperimentDetail }) {
  const query = useQuery(searchResults(experiment.id));
  return <QueryView query={query}>{(results) => <Charts results={results} experiment={experiment} />}</QueryView>;
}

function Charts({ results, experiment }: { results: Results; experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const [brushes, setBrushes] = useState<ReadonlyMap<string, Range>>(new Map());
  const metric = useMemo(() => metrics(results), [results]);
  const all = useMemo(() => axes(results), [results]);
  const inside = useMemo(() => matching(results, all, metric, brushes), [results, all, metric, brushes]);
  const num = metric.filter((value) => value !== null).length;
  if (num === 0) return <Empty title={t("search.noResult")}>{t("search.noResultHint")}</Empty>;
  return (
    <>
      {results.objectives.length > 0 ? <Objectives results={results} metric={metric} /> : null}
      <Section title={t("search.history")} note={t("search.withValue", { num, all: results.no.length })}>
        <History results={results} metric={metric} />
      </Section>
      <Section
        title={t("search.parallel")}
        note={
          brushes.size > 0 ? (
            <Button variant="subtle" size="compact-xs" onClick={() => setBrushes(new Map())}>
              {t("search.clearBrushes", { shown: inside.length, num })}
            </Button>
          ) : (
            t("search.brushHint")
          )
        }
      >
        <ParallelCoordinates results={results} axes={all} metric={metric} inside={inside} brushes={brushes} onBrush={setBrushes} />
        <BestTable results={results} metric={metric} inside={inside} />
      </Section>
      <Population results={results} metric={metric} />
      <Importance experiment={experiment} />
      <Slice results={results} axes={all} metric={metric} inside={inside} />
      <Section title={t("maps.title")}>
        <Contour results={results} axes={all} metric={metric} inside={inside} />
      </Section>
      <Section title={t("maps.when")}>
        <Timeline results={results} />
      </Section>
    </>
  );
}

/** Dots, and a frame with round ticks of the metric. `at`: 0 to 1 along the width. */
function scatter({ context, width, height, palette }: Pen, yAxis: Axis, dots: { at: number; y: number; faint: boolean }[], label: (at: number) => string, marks: number[], best?: { at: number; y: number }[]): void {
  const right = width - 10;
  const bottom = height - BOTTOM;
  const x = (at: number): number => LEFT + at * (right - LEFT);
  const y = (value: number): number => bottom - scaled(yAxis, value) * (bottom - TOP);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of roundTicks(yAxis.low, yAxis.high, yAxis.log)) {
    context.strokeStyle = palette.grid;
    context.beginPath();
    context.moveTo(LEFT, y(tick));
    context.lineTo(right, y(tick));
    context.stroke();
    context.fillStyle = palette.text2;
    context.fillText(format.num(tick, 3), LEFT - 8, y(tick));
  }
  context.textBaseline = "top";
  context.fillStyle = palette.text2;
  for (const mark of marks) {
    context.textAlign = mark <= 0 ? "left" : mark >= 1 ? "right" : "center";
    context.fillText(label(mark), x(mark), bottom + 8);
  }
  const radius = dots.length > 2000 ? 1.5 : 3;
  for (const dot of dots) {
    context.fillStyle = dot.faint ? alpha(palette.text2, 0.35) : alpha(palette.series[0] ?? palette.text, 0.75);
    context.beginPath();
    context.arc(x(dot.at), y(dot.y), radius, 0, 2 * Math.PI);
    context.fill();
  }
  if (!best || best.length === 0) return;
  context.strokeStyle = palette.series[1] ?? palette.text;
  context.lineWidth = 2;
  context.beginPath();
  best.forEach((step, i) => {
    if (i === 0) context.moveTo(x(step.at), y(step.y));
    else {
      context.lineTo(x(step.at), y((best[i - 1] as { y: number }).y));
      context.lineTo(x(step.at), y(step.y));
    }
  });
  context.stroke();
}

function History({ results, metric }: { results: Results; metric: (number | null)[] }) {
  const { t } = useTranslation();
  const count = results.no.length;
  const best = useMemo(() => bestSoFar(metric, results.metric_goal), [metric, results.metric_goal]);
  const axis = useMemo(() => axes(results).at(-1), [results]);
  const draw = (pen: Pen) => {
      if (!axis) return;
      const at = (i: number): number => (count > 1 ? i / (count - 1) : 0.5);
      const dots = metric.flatMap((y, i) => (y === null ? [] : [{ at: at(i), y, faint: results.state[i] !== "COMPLETED" }]));
      const steps = best.flatMap((y, i) => (y === null ? [] : [{ at: at(i), y }]));
      scatter(pen, axis, dots, (mark) => t("trial.no", { no: results.no[Math.round(mark * (count - 1))] ?? 1 }), count > 1 ? [0, 1] : [0.5], steps);
    };
  const last = best.at(-1) ?? null;
  return (
    <>
      <Canvas height={HEIGHT} label={t("search.historyLabel", { metric: results.metric_name ?? "", count, best: format.num(last) })} draw={draw} />
      <p className="dim" style={{ fontSize: "0.75rem", margin: "4px 0 0" }}>
        {t("search.historyKey")}
      </p>
    </>
  );
}

/** Two objectives against each other, and the trials that no other one beats in all of them. */
function Objectives({ results, metric }: { results: Results; metric: (number | null)[] }) {
  const { t } = useTranslation();
  const [across, setAcross] = useState(0);
  const [up, setUp] = useState(1);
  const xAxis = objectiveAxis(results, across);
  const yAxis = objectiveAxis(results, up);
  const names = results.objectives.map((one, i) => ({ value: String(i), label: one.metric }));
  if (!xAxis || !yAxis) return <Empty title={t("objectives.none")} />;
  const dots = objectiveDots(results, across, up);
  const line = dots.filter((dot) => !dot.faint).toSorted((a, b) => a.at - b.at);
  const draw = (pen: Pen) => scatter(pen, yAxis, dots, (mark) => format.num(mark === 0 ? xAxis.low : xAxis.high), [0, 1], line);
  return (
    <Section title={t("objectives.title")} note={t("objectives.note", { count: results.front.length, all: results.no.length })}>
      {results.objectives.length > 2 ? (
        <Group mb="xs">
          <Select label={t("objectives.across")} w={220} allowDeselect={false} value={String(across)} data={names} onChange={(value) => setAcross(Number(value))} />
          <Select label={t("objectives.up")} w={220} allowDeselect={false} value={String(up)} data={names} onChange={(value) => setUp(Number(value))} />
        </Group>
      ) : null}
      <p className="dim" style={{ fontSize: "0.75rem", margin: "0 0 4px" }}>
        {yAxis.name} ↑ · {xAxis.name} →
      </p>
      <Canvas height={HEIGHT} label={t("objectives.label", { x: xAxis.name, y: yAxis.name, count: dots.length })} draw={draw} />
      <p className="dim" style={{ fontSize: "0.75rem", margin: "4px 0 8px" }}>
        {t("objectives.key")}
      </p>
      <TrialTable results={results} metric={metric} shown={results.front} label={t("objectives.table")} />
    </Section>
  );
}

function BestTable({ results, metric, inside }: { results: Results; metric: (number | null)[]; inside: number[] }) {
  const { t } = useTranslation();
  const shown = byMetric(inside, metric, results.metric_goal).slice(0, TABLE_ROWS);
  return (
    <>
      <p className="dim" style={{ fontSize: "0.75rem", margin: "8px 0 4px" }}>
        {t("search.bestOf", { shown: shown.length, count: inside.length })}
      </p>
      <TrialTable results={results} metric={metric} shown={shown} label={t("search.parallel")} />
    </>
  );
}

/** Trials by index, with their state, their results and their hyperparameters. */
function TrialTable({ results, metric, shown, label }: { results: Results; metric: (number | null)[]; shown: number[]; label: string }) {
  const { t } = useTranslation();
  return (
      <DataTable
        rows={shown}
        rowKey={(i) => String(results.id[i])}
        label={label}
        cards={false}
        columns={[
          { id: "no", header: t("trials.trial"), align: "right", cell: (i) => <Link to="/trials/$trialId" params={{ trialId: String(results.id[i]) }}>{results.no[i]}</Link> },
          { id: "state", header: t("experiments.state"), cell: (i) => <StateBadge state={results.state[i] ?? ""} /> },
          ...(results.objectives.length === 0
            ? [{ id: "metric", header: results.metric_name ?? t("experiment.metric"), align: "right" as const, cell: (i: number) => format.num(metric[i] ?? null) }]
            : results.objectives.map((one, column) => ({
                id: `objective.${column}`,
                header: one.metric,
                align: "right" as const,
                cell: (i: number) => format.num(fromWire(one.values[i] ?? null)),
              }))),
          ...results.parameters.map((parameter, column) => ({
            id: parameter.name,
            header: parameter.name,
            align: "right" as const,
            cell: (i: number) => {
              const raw = results.values[column]?.[i] ?? null;
              return typeof raw === "number" ? format.num(raw) : (raw ?? "–");
            },
          })),
        ]}
      />
  );
}

function Importance({ experiment }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const query = useQuery(searchImportance(experiment.id));
  return (
    <QueryView query={query}>
      {(found) => (
        <Section title={t("search.importance")} note={t("search.importanceFrom", { count: found.num_trials })}>
          {found.shares === null ? (
            <Empty title={t("search.noImportance")}>{t("search.noImportanceHint", { count: found.min_trials })}</Empty>
          ) : (
            <table style={{ width: "100%", borderCollapse: "collapse" }} data-testid="importance">
              <tbody>
                {Object.entries(found.shares).map(([name, share]) => (
                  <tr key={name}>
                    <th scope="row" style={{ textAlign: "left", fontWeight: 400, padding: "3px 8px 3px 0", whiteSpace: "nowrap" }} className="mono">
                      {name}
                    </th>
                    <td style={{ width: "100%" }} aria-label={format.pct(share)}>
                      <div style={{ height: 12, width: `${100 * share}%`, minWidth: 1, background: "var(--series-0)", borderRadius: 2 }} />
                    </td>
                    <td className="num" style={{ textAlign: "right", paddingLeft: 8 }}>
                      {format.pct(share)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Section>
      )}
    </QueryView>
  );
}

/** One hyperparameter against the metric. */
function Slice({ results, axes: all, metric, inside }: { results: Results; axes: Axis[]; metric: (number | null)[]; inside: number[] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const searched = all.filter((axis) => axis.column >= 0);
  const [chosen, setChosen] = useState<string | null>(null);
  const axis = searched.find((one) => one.name === chosen) ?? searched[0];
  const yAxis = all.at(-1);
  const dots = axis
    ? inside.flatMap((i) => {
        const at = place(axis, results, metric, i);
        const y = metric[i] ?? null;
        return at === null || y === null ? [] : [{ at, y, faint: results.state[i] !== "COMPLETED", index: i }];
      })
    : [];
  const draw = (pen: Pen) => {
      if (!axis || !yAxis) return;
      const named = axis.choices.length > 0;
      const marks = named ? axis.choices.map((_, i) => i / Math.max(axis.choices.length - 1, 1)) : [0, 1];
      scatter(pen, yAxis, dots, (mark) => (named ? (axis.choices[Math.round(mark * (axis.choices.length - 1))] ?? "") : format.num(mark === 0 ? axis.low : axis.high)), marks);
    };
  if (!axis || !yAxis || extremes(dots.map((dot) => dot.y)).length === 0) return null;
  const open = (kind: string, px: number, py: number, width: number): void => {
    if (kind !== "up") return;
    const distance = (dot: (typeof dots)[number]): number => Math.hypot(LEFT + dot.at * (width - 10 - LEFT) - px, HEIGHT - BOTTOM - scaled(yAxis, dot.y) * (HEIGHT - BOTTOM - TOP) - py);
    const nearest = dots.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    if (distance(nearest) < 12) void navigate({ to: "/trials/$trialId", params: { trialId: String(results.id[nearest.index]) } });
  };
  return (
    <Section title={t("search.slice")} note={t("search.sliceNote", { count: dots.length })}>
      <Select aria-label={t("search.parameter")} w={220} mb="xs" allowDeselect={false} value={axis.name} data={searched.map((one) => one.name)} onChange={setChosen} />
      <Canvas height={HEIGHT} label={t("search.sliceLabel", { parameter: axis.name, metric: results.metric_name ?? "", count: dots.length })} draw={draw} onPointer={open} cursor="pointer" />
    </Section>
  );
}
