import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type Preflight, preflights } from "../../../api/queries";
import { Clamped, Section } from "../../../components/basics";
import { type Column, column, DataTable, numeric } from "../../../components/tables/DataTable";
import { Ago } from "../../../components/Time";

/** The latest ones; nothing where there never was one. */
export function Preflights() {
  const { t } = useTranslation();
  const found = useQuery(preflights).data ?? [];
  const columns: Column<Preflight>[] = [
    {
      id: "no",
      header: t("preflight.number"),
      lead: true,
      width: 70,
      cell: (item) => (
        <Link to="/preflights/$preflightId" params={{ preflightId: String(item.id) }}>
          {item.id}
        </Link>
      ),
    },
    column("state", t("preflight.verdict"), (item) => <PreflightState state={item.state} />, { width: 120 }),
    {
      id: "nodes",
      header: t("preflight.nodes"),
      width: 220,
      cell: (item) => <Clamped text={item.nodes.map((node) => node.node_name).join(", ")} />,
    },
    column("message", t("preflight.detail"), (item) => <Clamped text={item.message} />, { phone: false }),
    numeric("when", t("preflight.when"), (item) => <Ago at={item.created_at} />, { width: 120 }),
  ];
  if (found.length === 0) return null;
  return (
    <Section guide="guides/agents#preflight-check-that-nodes-can-train-together" title={t("preflight.recent")}>
      <DataTable
        rows={found}
        columns={columns}
        rowKey={(item) => item.id}
        label={t("preflight.recent")}
        testId="preflights"
      />
    </Section>
  );
}

const TONES: Record<Preflight["state"], string> = {
  running: "var(--text-2)",
  passed: "var(--ok)",
  failed: "var(--bad)",
};

export function PreflightState({ state }: { state: Preflight["state"] }) {
  const { t } = useTranslation();
  return (
    <span style={{ color: TONES[state], fontWeight: 600 }} data-testid="preflight-state" data-state={state}>
      {t(`preflight.state.${state}`)}
    </span>
  );
}
