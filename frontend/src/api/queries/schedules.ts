/** Experiments that start at the times of a cron expression. */
import { queryOptions } from "@tanstack/react-query";

import { client, type Schemas, unwrap } from "../client";

export type Schedule = Schemas["ScheduleOut"];

export const schedules = queryOptions({
  queryKey: ["schedules"],
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/schedules", { signal }))).items,
});
