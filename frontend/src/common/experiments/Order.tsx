import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { ExperimentDetail } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";
import { StateBadge } from "../../components/StateBadge";
import layout from "../../components/layout.module.css";

type Ordered = ExperimentDetail["after"];

/** What it starts after, and what starts after it; nothing when it stands alone. */
export function Order({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const rows: [React.ReactNode, React.ReactNode][] = [];
  if (data.after.length > 0) rows.push([t("order.after"), <Others key="after" items={data.after} />]);
  if (data.num_before > 0) {
    const more = data.num_before - data.before.length;
    rows.push([
      t("order.before"),
      <div key="before">
        <Others items={data.before} />
        {more > 0 ? <p className="dim">{t("order.more", { count: more })}</p> : null}
      </div>,
    ]);
  }
  if (rows.length === 0) return null;
  return (
    <Section guide="guides/experiments#start-after-other-experiments" title={t("order.title")} testId="order">
      <KeyValues items={rows} />
    </Section>
  );
}

function Others({ items }: { items: Ordered }) {
  const { t } = useTranslation();
  return (
    <ul className={`${layout["bare"]} ${layout["rows"]}`}>
      {items.map((item) => (
        <li key={item.id} className={layout["anywhere"]}>
          {item.name === null ? (
            `#${item.id} (${t("lineage.deleted")})`
          ) : (
            <Link to="/experiments/$experimentId" params={{ experimentId: String(item.id) }}>
              {item.name} #{item.id}
            </Link>
          )}{" "}
          {item.state === null ? null : <StateBadge state={item.state} plain />}{" "}
          <span className="dim">{t(item.when === "any" ? "order.any" : "order.success")}</span>
        </li>
      ))}
    </ul>
  );
}
