/** Experiments that start at the times of a cron expression. */
import { queryOptions } from "@tanstack/react-query";

import { get, type Schemas } from "../client";

export type Schedule = Schemas["ScheduleOut"];

export const schedules = queryOptions({
  queryKey: ["schedules"],
  queryFn: async ({ signal }) => (await get("/api/v1/schedules", { signal })).items,
});
