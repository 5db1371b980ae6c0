/** Scaling reports of an experiment. Comes with the pages that show them. */
import { queryOptions } from "@tanstack/react-query";

import { url } from "../lib/address";
import { get, type Schemas } from "./client";
import { allPages } from "./queries/pages";

export type ScalingReport = Schemas["ScalingReportDetail"];
export type ScalingReportItem = Schemas["ScalingReportOut"];
export type ScalingSize = Schemas["ScalingSizeOut"];
export type CostModel = Schemas["CostModelOut"];
export type Prediction = Schemas["PredictionOut"];
/** A figure with its 95 % interval; null bounds: too few measurements to have any. */
export type Estimate = ScalingSize["speedup"];

/** What to predict beside the measured sizes. Nothing: the server's choice. */
export interface Asked {
  slots?: number[];
  bandwidth_mbit_per_s?: number[];
  latency_us?: number;
  measured_bandwidth_mbit_per_s?: number;
}

const RUNNING_MS = 2_000;

/** The newest first; asked for again while one runs. */
export const scalingReports = (experimentId: number) =>
  queryOptions({
    queryKey: ["scaling", experimentId],
    queryFn: async ({ signal }) =>
      (
        await allPages("scalingReports", (cursor) =>
          get("/api/v1/experiments/{experiment_id}/scaling-reports", {
            params: { path: { experiment_id: experimentId }, query: { cursor, limit: 200 } },
            signal,
          }),
        )
      ).items,
    refetchInterval: (query) => (query.state.data?.some((one) => one.state === "running") ? RUNNING_MS : false),
  });

export const scalingReport = (experimentId: number, reportId: number, asked: Asked) =>
  queryOptions({
    queryKey: ["scaling", experimentId, reportId, asked],
    queryFn: ({ signal }) =>
      get("/api/v1/scaling-reports/{report_id}", {
        params: { path: { report_id: reportId }, query: asked },
        signal,
      }),
    refetchInterval: (query) => (query.state.data?.state === "running" ? RUNNING_MS : false),
    placeholderData: (before, query) => (query?.queryKey[2] === reportId ? before : undefined),
  });

/** Where the report is as a file, with what was asked for. */
export function exportAddress(reportId: number, format: "markdown" | "csv", asked: Asked): string {
  const query = new URLSearchParams({ format });
  for (const size of asked.slots ?? []) query.append("slots", String(size));
  for (const bandwidth of asked.bandwidth_mbit_per_s ?? []) query.append("bandwidth_mbit_per_s", String(bandwidth));
  if (asked.latency_us !== undefined) query.append("latency_us", String(asked.latency_us));
  const measured = asked.measured_bandwidth_mbit_per_s;
  if (measured !== undefined) query.append("measured_bandwidth_mbit_per_s", String(measured));
  return url(`/api/v1/scaling-reports/${reportId}/export?${query.toString()}`);
}
