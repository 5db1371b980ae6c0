import "../../i18n/en/pipeline";
import "../../i18n/en/trials";

import { useTranslation } from "react-i18next";

import type { TrialDetail, TrialPerformance } from "../../api/queries";
import type { FigureTable } from "../../charts/Figure";
import { SvgFigure } from "../../charts/SvgFigure";
import { roundTicks } from "../../charts/ticks";
import * as format from "../../lib/format";
import { isDrawn, shapeOf, timeline, type WorkerTimes } from "./pipelineSchedule";

const ROW = 26;
const LEFT = 72;
const RIGHT = 14;
const TOP = 6;
const BOTTOM = 28;
/** Pixels that the number of a micro-batch takes. */
const NUMBERED = 15;
const COLORS = { forward: "var(--part-forward)", backward: "var(--series-0)" } as const;

/** When each stage computes which micro-batch: the schedule's order, with the mean times that were measured. */
export function PipelineFigure({ trial, data }: { trial: TrialDetail; data: TrialPerformance }) {
  const { t } = useTranslation();
  const { schedule, accumulate } = strategyOf(trial.config);
  const times = timesOf(data);
  if (!isDrawn(schedule)) return <p className="dim">{t("pipeline.notDrawn", { schedule })}</p>;
  const line = timeline(schedule, times, accumulate);
  if (line === null) return <p className="dim">{t("pipeline.tooMany", { count: shapeOf(schedule, times.length, accumulate).micros })}</p>;
  const measured = data.stages.reduce((sum, stage) => sum + (stage.step_ms > 0 ? stage.bubble_ms / stage.step_ms : 0), 0) / data.stages.length;
  const rows = Math.min(...data.ranks.map((rank) => rank.num_rows));
  const kind = { forward: t("pipeline.forward"), backward: t("pipeline.backward") };
  const told = { schedule, micros: shapeOf(schedule, times.length, accumulate).micros, idle: format.pct(line.idleShare), measured: format.pct(measured), n: format.count(rows) };
  const table: FigureTable = {
    head: [t("perf.stage"), t("pipeline.part"), t("pipeline.micro"), t("pipeline.from"), t("pipeline.to")],
    rows: line.boxes.map((box) => [
      { text: String(box.stage), raw: box.stage },
      { text: kind[box.kind], raw: box.kind },
      { text: String(box.micro + 1), raw: box.micro + 1 },
      { text: format.ms(box.startMs), raw: box.startMs },
      { text: format.ms(box.endMs), raw: box.endMs },
    ]),
  };
  const height = TOP + times.length * ROW + BOTTOM;
  return (
    <>
      <SvgFigure
        title={t("pipeline.title")}
        unit="ms"
        label={t("pipeline.label", told)}
        height={height}
        keys={(["forward", "backward"] as const).map((name) => ({ label: kind[name], color: COLORS[name], shape: "square" }))}
        table={table}
        testId="pipeline-schedule"
      >
        {(width) => {
          const x = (ms: number): number => LEFT + (ms / line.totalMs) * (width - LEFT - RIGHT);
          return (
            <>
              {roundTicks(0, line.totalMs).map((tick) => (
                <g key={tick}>
                  <line x1={x(tick)} x2={x(tick)} y1={TOP} y2={height - BOTTOM} stroke="var(--grid)" />
                  <text x={x(tick)} y={height - BOTTOM + 16} textAnchor="middle" fontSize={11} fill="var(--text-2)">
                    {format.num(tick, 3)}
                  </text>
                </g>
              ))}
              {times.map((_, worker) => (
                <text key={worker} x={LEFT - 8} y={TOP + worker * ROW + ROW / 2 + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
                  {t("pipeline.worker", { no: worker })}
                </text>
              ))}
              {line.boxes.map((box) => {
                const from = x(box.startMs);
                const wide = Math.max(x(box.endMs) - from - 1, 0.5);
                return (
                  <g key={`${box.kind} ${box.stage} ${box.micro}`}>
                    <rect x={from} y={TOP + box.worker * ROW + 3} width={wide} height={ROW - 6} fill={COLORS[box.kind]}>
                      <title>{t("pipeline.box", { kind: kind[box.kind], micro: box.micro + 1, stage: box.stage, from: format.ms(box.startMs), to: format.ms(box.endMs) })}</title>
                    </rect>
                    {wide >= NUMBERED ? (
                      <text x={from + wide / 2} y={TOP + box.worker * ROW + ROW / 2 + 4} textAnchor="middle" fontSize={10} fill="#0b0c0e" style={{ pointerEvents: "none" }}>
                        {box.micro + 1}
                      </text>
                    ) : null}
                  </g>
                );
              })}
            </>
          );
        }}
      </SvgFigure>
      <p className="dim">{t("pipeline.note", told)}</p>
    </>
  );
}

function strategyOf(config: TrialDetail["config"]): { schedule: string; accumulate: number } {
  const strategy = (config["strategy"] ?? {}) as Record<string, unknown>;
  return { schedule: typeof strategy["schedule"] === "string" ? strategy["schedule"] : "1f1b", accumulate: Number(strategy["accumulate"] ?? 1) || 1 };
}

/** Of each worker of the pipeline, in its order: means over the ranks that hold its stages. */
function timesOf(data: TrialPerformance): WorkerTimes[] {
  return data.stages
    .toSorted((a, b) => a.stage - b.stage)
    .map((stage) => {
      const having = data.ranks.filter((rank) => rank.stage === stage.stage);
      const mean = (name: string): number => having.reduce((sum, rank) => sum + (rank.parts[name] ?? 0), 0) / Math.max(having.length, 1);
      return { forwardMs: mean("time/forward_ms"), backwardMs: mean("time/backward_ms") };
    });
}
