import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { experiment, experimentSearch, searchResults, trial, trialMetrics } from "../api/queries";
import { QueryView } from "../components/QueryView";
import { type Early, lazyPage } from "./lazyPage";

const SearchPage = lazyPage(() => import("../features/experiments/ExperimentPage"), "ExperimentPage");
const OnlyTrialPage = lazyPage(() => import("../features/trials/TrialPage"), "OnlyTrialPage");

/** The page of an experiment: its trial's if there can be only one, else the search's. */
export function RunPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId" });
  const query = useQuery(experiment(Number(experimentId)));
  return (
    <QueryView query={query} isPage>
      {(data) => (data.only_trial_id === null ? <SearchPage /> : <OnlyTrialPage />)}
    </QueryView>
  );
}

/** Ask for the code and the data of whichever page it is. */
export async function askEarlyForRun(early: Early): Promise<void> {
  const { queryClient, params, search } = early;
  const id = Number(params["experimentId"]);
  if ("tab" in search && search.tab === "search") {
    void queryClient.prefetchQuery(experimentSearch(id));
    void queryClient.prefetchQuery(searchResults(id));
  }
  const found = await queryClient.ensureQueryData(experiment(id));
  if (found.only_trial_id === null) return SearchPage.preload(early);
  void queryClient.prefetchQuery(trial(found.only_trial_id));
  void queryClient.prefetchQuery(trialMetrics(found.only_trial_id));
  return OnlyTrialPage.preload(early);
}
