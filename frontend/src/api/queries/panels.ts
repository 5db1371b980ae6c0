/** Panels that people add to the charts of an experiment or a project. */
import { queryOptions } from "@tanstack/react-query";

import { get, type Schemas } from "../client";

export type Panel = Schemas["PanelOut"];
export type PanelKind = Panel["kind"];

/** Those of an experiment and of its project, or those of a project alone; the server answers with all of them. */
export const panels = (of: { experiment?: number; project?: string }) =>
  queryOptions({
    queryKey: ["panels", of],
    queryFn: async ({ signal }) => (await get("/api/v1/panels", { params: { query: of }, signal })).items,
    staleTime: 60_000,
  });
