import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type AliasMove, modelHistory } from "../../api/queries";
import { Empty } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { Stamp } from "../../components/Time";
import layout from "../../components/layout.module.css";

/** Which version each alias named when, who moved it, and why. */
export function AliasHistory({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(modelHistory(name));
  const columns = useColumns(name);
  return (
    <PagedList
      query={query}
      empty={<Empty title={t("models.noHistory")}>{t("models.noHistoryHint")}</Empty>}
      rowKey={(move) => move.id}
      label={t("models.tab.history")}
      testId="alias-history"
      columns={columns}
    />
  );
}

function useColumns(name: string): Column<AliasMove>[] {
  const { t } = useTranslation();
  return [
    lead("move", t("models.move"), ({ alias, version, previous }) => (
      <span className={layout["nowrap"]}>
        {version === null ? (
          t("models.removed", { alias })
        ) : (
          <Link to="/models/$name/versions/$number" params={{ name, number: String(version) }}>
            {t("models.moved", { alias, version })}
          </Link>
        )}
        {previous === null ? null : <span className="dim"> {t("models.movedBefore", { version: previous })}</span>}
      </span>
    )),
    column("by", t("models.by"), (move) => move.by),
    column("why", t("models.why"), (move) => move.reason),
    numeric("at", t("models.when"), (move) => <Stamp at={move.at} />),
  ];
}
