import { Button } from "@mantine/core";
import { IconGitCompare } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type Experiment, experiments } from "../../api/queries";
import { Headline } from "../../common/headline/Headline";
import { Empty, Section } from "../../components/basics";
import { actions, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { SubmitLink } from "../../components/SubmitLink";
import { Ago } from "../../components/Time";

const SHOWN = 10;

/** The trial that stands for an experiment: its only one, or the best of a search. */
const trialOf = (item: Experiment): number | null => item.only_trial_id ?? item.best_trial_id;

/** While there are not two trials to compare: the newest runs that have something to show, each one click away. */
export function Suggestions({ chosen, onChoose }: { chosen: number[]; onChoose: (ids: number[]) => void }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(experiments({}, SHOWN * 2));
  return (
    <QueryView query={query}>
      {(data) => {
        const items = data.pages.flatMap((page) => page.items).filter((item) => item.headline && trialOf(item));
        const others = items.filter((item) => !chosen.includes(trialOf(item) ?? 0)).slice(0, SHOWN);
        if (others.length + chosen.length < 2)
          return (
            <Empty title={t("compare.empty")} action={<SubmitLink />}>
              {t("compare.emptyHint")}
            </Empty>
          );
        const ids = others.map((item) => trialOf(item) ?? 0);
        return (
          <Section
            title={t(chosen.length === 0 ? "compare.recent" : "compare.with")}
            note={
              chosen.length === 0 ? (
                <Button
                  variant="default"
                  leftSection={<IconGitCompare size={14} aria-hidden />}
                  onClick={() => onChoose(ids.slice(0, 2))}
                  data-testid="compare-newest"
                >
                  {t("compare.newest")}
                </Button>
              ) : null
            }
          >
            <Runs items={others} onAdd={(id) => onChoose([...chosen, id])} />
          </Section>
        );
      }}
    </QueryView>
  );
}

function Runs({ items, onAdd }: { items: Experiment[]; onAdd: (id: number) => void }) {
  const { t } = useTranslation();
  return (
    <DataTable<Experiment>
      rows={items}
      rowKey={(item) => item.id}
      label={t("compare.recent")}
      testId="compare-with"
      columns={[
        lead("name", t("experiments.name"), (item) => (
          <span>
            {item.name} <span className="dim num">#{item.id}</span>
            {item.only_trial_id === null ? <span className="dim"> {t("compare.bestOfSearch")}</span> : null}
          </span>
        )),
        column("state", t("experiments.state"), (item) => <StateBadge state={item.state} plain />),
        column("metric", t("experiments.metric"), (item) => <Headline item={item} />),
        numeric("at", t("experiments.created"), (item) => <Ago at={item.created_at} />),
        actions("add", t("common.rowActions"), (item) => (
          <Button
            variant="subtle"
            size="compact-xs"
            aria-label={t("compare.addOf", { name: item.name })}
            onClick={() => onAdd(trialOf(item) ?? 0)}
          >
            {t("compare.addOne")}
          </Button>
        )),
      ]}
    />
  );
}
