import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { client, unwrap } from "../../api/client";
import type { TrialDetail } from "../../api/queries";
import type { LogSearch } from "../../app/search";
import { LogPane } from "../../common/logs/LogPane";
import { trialSource } from "../../common/logs/logQuery";

export function Logs({ trial }: { trial: TrialDetail }) {
  const search = useSearch({ from: "/app/trials/$trialId" });
  const navigate = useNavigate({ from: "/trials/$trialId" });
  const set = (change: Partial<LogSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const streams = useQuery({
    queryKey: ["trial", trial.id, "log-streams"],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/logs/streams", { params: { path: { trial_id: trial.id } }, signal }),
      ),
  }).data?.items;
  return <LogPane source={trialSource(trial)} search={search} set={set} streams={streams ?? []} />;
}
