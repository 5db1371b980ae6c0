/** Reports: pages of text, charts, tables and media over runs. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";

export type Report = Schemas["ReportDetail"];
export type ReportBlock = Report["blocks"][number];
export type ReportContent = Schemas["ReportContentOut"];
export type BlockContent = ReportContent["blocks"][number];

const REFRESH_MS = 15_000;

export const reports = (project?: string) =>
  infiniteQueryOptions({
    queryKey: ["reports", project ?? null],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/reports", { params: { query: { project, cursor: pageParam } }, signal }),
    ...byCursor,
  });

const path = (id: number) => ({ path: { report_id: id } });

export const report = (id: number) =>
  queryOptions({
    queryKey: ["report", id],
    queryFn: ({ signal }) => get("/api/v1/reports/{report_id}", { params: path(id), signal }),
  });

/** What its blocks show. The version is part of the key: another one has other blocks. */
export const reportContent = ({ id, version, frozen_at }: Report) =>
  queryOptions({
    queryKey: ["report", id, "content", version],
    queryFn: ({ signal }) => get("/api/v1/reports/{report_id}/content", { params: path(id), signal }),
    refetchInterval: frozen_at === null ? REFRESH_MS : false,
  });

export const reportComments = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["report", id, "comments"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/reports/{report_id}/comments", {
        params: { ...path(id), query: { cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

export const reportLinks = (id: number) =>
  queryOptions({
    queryKey: ["report", id, "links"],
    queryFn: ({ signal }) => get("/api/v1/reports/{report_id}/links", { params: path(id), signal }),
  });
