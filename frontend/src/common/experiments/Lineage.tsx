import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, experimentChildren } from "../../api/queries";
import { KeyValues, LoadMore, Section } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";

/** What was forked into what; nothing when it stands alone. */
export function Lineage({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const children = useInfiniteQuery({ ...experimentChildren(data.id), enabled: data.num_children > 0 });
  if (data.parent === null && data.num_children === 0 && data.num_continued === 0) return null;
  return (
    <Section guide="guides/managing#fork-and-start-from-a-checkpoint" title={t("lineage.title")} testId="lineage">
      <KeyValues
        items={[
          ...(data.parent
            ? ([
                [
                  t("lineage.from"),
                  <span key="from">
                    {data.parent.exists ? (
                      <Link
                        to="/experiments/$experimentId"
                        params={{ experimentId: String(data.parent.experiment_id) }}
                      >
                        {data.parent.experiment_name} #{data.parent.experiment_id}
                      </Link>
                    ) : (
                      `${data.parent.experiment_name} #${data.parent.experiment_id} (${t("lineage.deleted")})`
                    )}
                  </span>,
                ],
                [
                  t("lineage.start"),
                  data.parent.checkpoint_id === null
                    ? t("lineage.fresh")
                    : t(data.parent.load === "weights" ? "lineage.weights" : "lineage.checkpoint", {
                        no: data.parent.trial_no ?? "–",
                        step: format.count(data.parent.step),
                        id: data.parent.checkpoint_experiment_id ?? data.parent.experiment_id,
                      }),
                ],
              ] as [React.ReactNode, React.ReactNode][])
            : []),
          ...(data.num_continued > 0
            ? ([[t("operation.continue"), t("lineage.continued", { count: data.num_continued })]] as [string, string][])
            : []),
        ]}
      />
      {data.num_children > 0 ? (
        <>
          <h3 className={`${layout["text"]} ${layout["aboveXl"]} ${layout["belowXs"]}`}>
            {t("lineage.children", { count: data.num_children })}
          </h3>
          <QueryView query={children}>
            {(pages) => {
              const items = pages.pages.flatMap((page) => page.items);
              return (
                <>
                  <ul className={`${layout["bare"]} ${layout["rows"]}`} data-testid="children">
                    {items.map((child) => (
                      <li key={child.id} className={layout["anywhere"]}>
                        <Link to="/experiments/$experimentId" params={{ experimentId: String(child.id) }}>
                          {child.name} #{child.id}
                        </Link>{" "}
                        <StateBadge state={child.state} plain />{" "}
                        <span className="dim">
                          {child.step === null
                            ? t("lineage.fresh")
                            : t("lineage.fromStep", { step: format.count(child.step) })}{" "}
                          · {child.owner ?? format.MISSING} · <Ago at={child.created_at} />
                        </span>
                      </li>
                    ))}
                  </ul>
                  <LoadMore query={children} shown={items.length} />
                </>
              );
            }}
          </QueryView>
        </>
      ) : null}
    </Section>
  );
}
