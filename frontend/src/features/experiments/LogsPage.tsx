import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type Experiment, experiment, experiments } from "../../api/queries";
import type { LogsSearch } from "../../app/search";
import { Empty, PageHead } from "../../components/basics";
import { ExperimentLink } from "../../components/ExperimentLink";
import { SubmitLink } from "../../components/SubmitLink";
import { QueryView } from "../../components/QueryView";
import { StateBadge, stateWord } from "../../components/StateBadge";
import filterCss from "../../components/tables/filters.module.css";
import uiCss from "../../components/ui.module.css";
import { ExperimentLog } from "./LogsTab";
import layout from "../../components/layout.module.css";

const OFFERED = 20;
/** Running experiments that stand above the log, one click away. */
const CHIPS = 6;

/** The log of an experiment that is chosen here; of the newest running one until then. */
export function LogsPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/logs" });
  const navigate = useNavigate({ from: "/logs" });
  const [typed, setTyped] = useState("");
  const [text] = useDebouncedValue(typed, 250);
  useLiveQueries("experiments", ["experiments"]);
  const running = useInfiniteQuery(experiments({ state: ["RUNNING"] }, CHIPS));
  const newest = useInfiniteQuery(experiments({}, OFFERED));
  const found = useInfiniteQuery({
    ...experiments({ q: text || undefined }, OFFERED),
    enabled: typed !== "",
    placeholderData: keepPreviousData,
  });
  const runs = running.data?.pages[0]?.items ?? [];
  const offered = (typed === "" ? newest : found).data?.pages[0]?.items ?? [];
  const chosen = search.experiment ?? runs[0]?.id ?? newest.data?.pages[0]?.items[0]?.id;
  const choose = (id: number): void => void navigate({ search: { experiment: id } });
  const name = (item: Experiment): string => `#${item.id} ${item.name} · ${stateWord(t, item.state)}`;
  return (
    <>
      <PageHead guide="guides/dashboard#logs" title={t("nav.logs")} sub={t("logs.pageHint")} />
      <QueryView query={search.experiment === undefined && running.data === undefined ? running : newest}>
        {() =>
          chosen === undefined ? (
            <Empty title={t("logs.noExperiment")} action={<SubmitLink />}>
              {t("logs.noExperimentHint")}
            </Empty>
          ) : (
            <>
              <div className={filterCss["filters"]}>
                <Select
                  aria-label={t("logs.choose")}
                  placeholder={t("logs.choose")}
                  searchable
                  nothingFoundMessage={t("command.none")}
                  value={null}
                  searchValue={typed}
                  onSearchChange={setTyped}
                  onChange={(value) => {
                    if (value !== null) choose(Number(value));
                  }}
                  data={offered.map((item) => ({ value: String(item.id), label: name(item) }))}
                  filter={({ options }) => options}
                  w={280}
                  data-testid="logs-experiment"
                />
                {runs.slice(0, CHIPS).map((item) => (
                  <button
                    key={item.id}
                    type="button"
                    className={filterCss["chip"]}
                    aria-pressed={item.id === chosen}
                    onClick={() => choose(item.id)}
                  >
                    #{item.id} {item.name}
                  </button>
                ))}
              </div>
              <Chosen
                id={chosen}
                search={search}
                set={(change) =>
                  void navigate({ search: (before) => ({ ...before, experiment: chosen, ...change }), replace: true })
                }
              />
            </>
          )
        }
      </QueryView>
    </>
  );
}

function Chosen({ id, search, set }: { id: number; search: LogsSearch; set: (change: Partial<LogsSearch>) => void }) {
  const { t } = useTranslation();
  const query = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["experiment", id]);
  return (
    <QueryView query={query}>
      {(data) => (
        <>
          <div className={`${uiCss["headSub"]} ${layout["belowL"]}`} data-testid="logs-of">
            <ExperimentLink item={data} /> <StateBadge state={data.state} />
            <Link to="/experiments/$experimentId" params={{ experimentId: String(id) }} search={{ tab: "logs" }}>
              {t("logs.asTab")}
            </Link>
          </div>
          <ExperimentLog experiment={data} search={search} set={set} />
        </>
      )}
    </QueryView>
  );
}
