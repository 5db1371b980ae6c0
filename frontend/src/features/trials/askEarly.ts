/** What the tabs of a trial ask first, asked while the page is still being put together. */
import { askAhead } from "../../api/ahead";
import { experiment, trialMetrics } from "../../api/queries";
import type { Early } from "../../app/lazyPage";
import type { TrialSearch } from "../../app/search";
import { arranged, readLayout } from "../../charts/chartLayout";
import { firstCharts } from "../../charts/whenSeen";
import { NAMES_PER_REQUEST, POINTS_MAX } from "../../charts/series/SeriesStore";
import { askForLog } from "../../common/logs/logQuery";
import { fetchTrialSeries, seriesQuestion } from "../../common/series/useSeriesStore";
import { readPref } from "../../lib/prefs";
import { chartsOf, ranksShown } from "./Metrics";

/** What is not the plain view of a tab is asked for by the tab itself. */
export async function askEarly({ queryClient, params, search: given }: Early): Promise<void> {
  const search = given as TrialSearch;
  const id = params["trialId"]
    ? Number(params["trialId"])
    : (await queryClient.ensureQueryData(experiment(Number(params["experimentId"])))).only_trial_id;
  if (id === null || !(id > 0)) return undefined;
  if (search.tab === "logs") return askForLog(id, search);
  if (
    (search.tab !== undefined && search.tab !== "metrics") ||
    search.x !== undefined ||
    search.find !== undefined ||
    search.closed !== undefined
  )
    return undefined;
  const { names, ranks } = await queryClient.ensureQueryData(trialMetrics(id));
  if (names.length === 0 && search.tab === undefined) return askForLog(id, search);
  // As the grid draws them: of its first group those that are on the screen.
  const [charts = []] = arranged(chartsOf(names), readLayout(readPref("charts.layout"))).values();
  const first = charts.slice(0, firstCharts()).flatMap((spec) => spec.names);
  for (let at = 0; at < first.length; at += NAMES_PER_REQUEST) {
    const ask = {
      names: first.slice(at, at + NAMES_PER_REQUEST),
      ranks: ranksShown(search.rank, ranks),
      from: search.from,
      to: search.to,
      maxPoints: POINTS_MAX,
    };
    askAhead(seriesQuestion(id, ask), () => fetchTrialSeries(id, ask));
  }
  return undefined;
}
