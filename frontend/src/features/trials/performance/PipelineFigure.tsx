import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { TrialDetail, TrialPerformance } from "../../../api/queries";
import type { FigureTable } from "../../../charts/Figure";
import { SvgFigure } from "../../../charts/SvgFigure";
import { roundTicks } from "../../../charts/series/ticks";
import * as format from "../../../lib/format";
import { isTerminal } from "../../../lib/states";
import {
  type Box,
  boxesOf,
  type Computing,
  COMPUTING,
  type Message,
  messagesOf,
  pipelineStep,
  type PipelineStep,
} from "./pipelineStep";
import css from "../trials.module.css";

const ROW = 30;
const LEFT = 64;
const RIGHT = 14;
const TOP = 6;
const BOTTOM = 28;
/** Pixels that the number of a micro-batch takes. */
const NUMBERED = 15;
const COLORS: Record<Computing, string> = {
  forward: "var(--part-forward)",
  backward: "var(--series-0)",
  backward_input: "var(--series-1)",
  backward_weight: "var(--part-device)",
};

/** What each worker of a pipeline computed and sent when, in one step that the workers noted. */
export function PipelineFigure({ trial, data }: { trial: TrialDetail; data: TrialPerformance }) {
  const { t } = useTranslation();
  const [pipeline, setPipeline] = useState(0);
  const noted = useQuery(pipelineStep(trial.id, pipeline, !isTerminal(trial.state)));
  const step = noted.data;
  if (step === undefined) return null;
  if (step.lanes.length === 0) return <p className="dim">{t("pipeline.none")}</p>;
  return (
    <>
      {step.num_pipelines > 1 ? (
        <Select
          aria-label={t("pipeline.which")}
          size="xs"
          w={150}
          allowDeselect={false}
          value={String(pipeline)}
          onChange={(value) => setPipeline(Number(value ?? "0"))}
          data={Array.from({ length: step.num_pipelines }, (_, no) => ({
            value: String(no),
            label: t("pipeline.no", { no }),
          }))}
        />
      ) : null}
      <Drawing step={step} schedule={scheduleOf(trial.config)} measured={idleOf(data)} />
    </>
  );
}

function Drawing({
  step,
  schedule,
  measured,
}: {
  step: PipelineStep;
  schedule: string;
  measured: { share: number; rows: number };
}) {
  const { t } = useTranslation();
  const boxes = boxesOf(step);
  const messages = messagesOf(step);
  const values = {
    schedule,
    step: format.count(step.step),
    micros: new Set(boxes.map((box) => box.micro)).size,
    idle: format.pct(step.idle_share),
    measured: format.pct(measured.share),
    n: format.count(measured.rows),
    error: format.ms(Math.max(...step.lanes.map((lane) => lane.error_ms ?? 0))),
  };
  const leftOut = step.lanes.reduce((sum, lane) => sum + lane.num_left_out, 0);
  const height = TOP + step.lanes.length * ROW + BOTTOM;
  const shown = COMPUTING.filter((kind) => boxes.some((box) => box.kind === kind));
  return (
    <>
      <SvgFigure
        title={t("pipeline.title")}
        unit="ms"
        label={t("pipeline.label", values)}
        height={height}
        keys={[
          ...shown.map((kind) => ({ label: t(`pipeline.${kind}`), color: COLORS[kind], shape: "square" as const })),
          ...(messages.length > 0
            ? [{ label: t("pipeline.message"), color: "var(--text-2)", shape: "line" as const }]
            : []),
        ]}
        table={tableOf(t, step, boxes)}
        testId="pipeline-schedule"
      >
        {(width) => <Marks step={step} boxes={boxes} messages={messages} width={width} height={height} />}
      </SvgFigure>
      <p className="dim">
        {t("pipeline.note", values)}
        {step.lanes.length > 1
          ? ` ${step.lanes.some((lane) => lane.error_ms === null) ? t("pipeline.clocksApart") : t("pipeline.clocks", values)}`
          : null}
        {leftOut > 0 ? ` ${t("pipeline.leftOut", { count: leftOut })}` : null}
      </p>
    </>
  );
}

function tableOf(t: TFunction, step: PipelineStep, boxes: Box[]): FigureTable {
  return {
    head: [
      t("pipeline.rank"),
      t("perf.stage"),
      t("pipeline.part"),
      t("pipeline.micro"),
      t("pipeline.from"),
      t("pipeline.to"),
    ],
    rows: boxes.map((box) => {
      const rank = step.lanes[box.lane]?.rank ?? 0;
      return [
        { text: String(rank), raw: rank },
        { text: String(box.stage), raw: box.stage },
        { text: t(`pipeline.${box.kind}`), raw: box.kind },
        { text: String(box.micro + 1), raw: box.micro + 1 },
        { text: format.ms(box.startMs), raw: box.startMs },
        { text: format.ms(box.endMs), raw: box.endMs },
      ];
    }),
  };
}

/** The axis, the name of each lane, what it computed, and the messages between lanes. */
function Marks({
  step,
  boxes,
  messages,
  width,
  height,
}: {
  step: PipelineStep;
  boxes: Box[];
  messages: Message[];
  width: number;
  height: number;
}) {
  const { t } = useTranslation();
  const totalMs = step.total_ms ?? 0;
  const middle = (lane: number): number => TOP + lane * ROW + ROW / 2;
  const x = (ms: number): number => LEFT + (totalMs > 0 ? ms / totalMs : 0) * (width - LEFT - RIGHT);
  return (
    <>
      {roundTicks(0, totalMs).map((tick) => (
        <g key={tick}>
          <line x1={x(tick)} x2={x(tick)} y1={TOP} y2={height - BOTTOM} stroke="var(--grid)" />
          <text x={x(tick)} y={height - BOTTOM + 16} textAnchor="middle" fontSize={11} fill="var(--text-2)">
            {format.num(tick, 3)}
          </text>
        </g>
      ))}
      {step.lanes.map((lane, index) => (
        <text key={lane.rank} x={LEFT - 8} y={middle(index) + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
          {t("rank.no", { rank: lane.rank })}
        </text>
      ))}
      {boxes.map((box) => (
        <BoxMark
          key={`${box.kind} ${box.stage} ${box.micro}`}
          box={box}
          left={x(box.startMs)}
          right={x(box.endMs)}
          middle={middle(box.lane)}
        />
      ))}
      {messages.map((message) => {
        const down = Math.sign(message.toLane - message.fromLane) * (ROW / 2 - 3);
        return (
          <line
            key={`${message.fromLane} ${message.startMs}`}
            x1={x(message.startMs)}
            y1={middle(message.fromLane) + down}
            x2={x(message.endMs)}
            y2={middle(message.toLane) - down}
            stroke="var(--text-2)"
            strokeWidth={1}
          />
        );
      })}
    </>
  );
}

function BoxMark({ box, left, right, middle }: { box: Box; left: number; right: number; middle: number }) {
  const { t } = useTranslation();
  const wide = Math.max(right - left - 0.5, 0.5);
  return (
    <g>
      <rect x={left} y={middle - ROW / 2 + 3} width={wide} height={ROW - 6} fill={COLORS[box.kind]}>
        <title>
          {t("pipeline.box", {
            kind: t(`pipeline.${box.kind}`),
            micro: box.micro + 1,
            stage: box.stage,
            from: format.ms(box.startMs),
            to: format.ms(box.endMs),
          })}
        </title>
      </rect>
      {wide >= NUMBERED ? (
        <text
          x={left + wide / 2}
          y={middle + 4}
          textAnchor="middle"
          fontSize={10}
          fill="var(--on-bright)"
          className={css["inert"]}
        >
          {box.micro + 1}
        </text>
      ) : null}
    </g>
  );
}

function scheduleOf(config: TrialDetail["config"]): string {
  const strategy = (config["strategy"] ?? {}) as Record<string, unknown>;
  return typeof strategy["schedule"] === "string" ? strategy["schedule"] : "1f1b";
}

/** Share of the step that the stages waited for each other, over all measured rows. */
function idleOf(data: TrialPerformance): { share: number; rows: number } {
  const shares = data.stages.map((stage) => (stage.step_ms > 0 ? stage.bubble_ms / stage.step_ms : 0));
  return {
    share: shares.reduce((sum, share) => sum + share, 0) / Math.max(shares.length, 1),
    rows: Math.min(...data.ranks.map((rank) => rank.num_rows)),
  };
}
