import { useQuery } from "@tanstack/react-query";

import { client, unwrap } from "../../api/client";
import type { TrialDetail } from "../../api/queries";
import { LogPane } from "../../common/logs/LogPane";
import { trialSource } from "../../common/logs/logQuery";
import { useTrialSearch } from "./address";

export function Logs({ trial }: { trial: TrialDetail }) {
  const [search, set] = useTrialSearch();
  const streams = useQuery({
    queryKey: ["trial", trial.id, "log-streams"],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/logs/streams", { params: { path: { trial_id: trial.id } }, signal }),
      ),
  }).data?.items;
  return <LogPane source={trialSource(trial)} search={search} set={set} streams={streams ?? []} />;
}
