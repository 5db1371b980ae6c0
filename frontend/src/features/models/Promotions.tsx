import { Badge } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { modelPromotions, type Promotion } from "../../api/queries";
import { Code, Empty } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { Ago } from "../../components/Time";

const COLORS = { waiting: "gray", moved: "green", kept: "blue", refused: "yellow" } as const;

/** The rules that move aliases when an experiment has ended, and what became of them. */
export function Promotions({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(modelPromotions(name));
  const columns = useColumns();
  return (
    <PagedList
      query={query}
      empty={
        <Empty
          title={t("models.noPromotions")}
          action={<Code text={`muster model promote ${name} --experiment 1 --to candidate`} />}
        >
          {t("models.noPromotionsHint")}
        </Empty>
      }
      rowKey={(rule) => rule.id}
      label={t("models.tab.promotions")}
      testId="promotions"
      columns={columns}
    />
  );
}

function useColumns(): Column<Promotion>[] {
  const { t } = useTranslation();
  return [
    lead("alias", t("models.alias"), (rule) => rule.alias),
    column("experiment", t("models.experiment"), (rule) => (
      <Link to="/experiments/$experimentId" params={{ experimentId: String(rule.experiment_id) }}>
        {`#${rule.experiment_id}`}
      </Link>
    )),
    column("metric", t("models.metric"), (rule) =>
      t(rule.goal === "max" ? "models.goal.max" : "models.goal.min", { metric: rule.metric }),
    ),
    column("outcome", t("models.outcome"), (rule) => (
      <>
        <Badge size="xs" variant="light" color={COLORS[rule.state]} tt="none">
          {t(`models.outcomes.${rule.state}`)}
        </Badge>{" "}
        <span lang="en">{rule.message}</span>
      </>
    )),
    column("by", t("models.by"), (rule) => rule.created_by, { phone: false }),
    numeric("at", t("models.when"), (rule) => <Ago at={rule.decided_at ?? rule.created_at} />),
  ];
}
