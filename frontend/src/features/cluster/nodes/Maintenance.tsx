import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { maintenance, type MaintenanceWindow, type Node } from "../../../api/queries";
import { scopeOf, whoOf } from "../../../common/nodes/maintenance";
import { Clamped } from "../../../components/basics";
import { type Column, column, lead } from "../../../components/tables/DataTable";
import { Stamp } from "../../../components/Time";
import { Choices, DialogButton, PeriodForm, PeriodTable } from "./Periods";

type Scope = "cluster" | "pools" | "nodes";

/** Active and planned windows; administrators end them here. */
export function MaintenanceList() {
  const { t } = useTranslation();
  const columns: Column<MaintenanceWindow>[] = [
    lead("scope", t("maintenance.concerns"), (window) => <Clamped text={scopeOf(t, window)} />),
    column("state", t("nodes.state"), (window) => t(`maintenance.state.${window.is_active ? "active" : "planned"}`)),
    column("from", t("maintenance.from"), (window) => <Stamp at={window.starts_at} />),
    column("until", t("maintenance.until"), (window) =>
      window.ends_at ? <Stamp at={window.ends_at} /> : t("maintenance.byHand"),
    ),
    column("running", t("maintenance.running"), (window) => t(`maintenance.way.${window.running}`)),
    column("reason", t("maintenance.reason"), (window) => <Clamped text={window.reason} />),
    column("by", t("maintenance.who"), whoOf),
  ];
  return (
    <PeriodTable
      rows={useQuery(maintenance).data ?? []}
      columns={columns}
      title={t("maintenance.title")}
      guide="guides/operations#maintenance"
      testId="maintenance"
      endWord={() => t("maintenance.end")}
      endTitle={(window) => t("maintenance.endTitle", { scope: scopeOf(t, window) })}
      endText={(window) => t(window.is_active ? "maintenance.endText" : "maintenance.callOffText")}
      end={(id) => unwrap(client.POST("/api/v1/maintenance/{window_id}:end", { params: { path: { window_id: id } } }))}
    />
  );
}

/** Asks what is to be maintained, when and why. */
export function MaintenanceButton({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  return (
    <DialogButton
      label={t("maintenance.plan")}
      testId="maintenance-plan"
      dialog={(onClose) => <Plan nodes={nodes} onClose={onClose} />}
    />
  );
}

function Plan({ nodes, onClose }: { nodes: readonly Node[]; onClose: () => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState<Scope>("cluster");
  const [names, setNames] = useState<readonly string[]>([]);
  const [period, setPeriod] = useState({ from: "", length: "1h" });
  const [running, setRunning] = useState<Schemas["MaintenanceIn"]["running"]>("checkpoint");
  const choices = scope === "pools" ? [...new Set(nodes.map((node) => node.pool))] : nodes.map((node) => node.name);
  return (
    <PeriodForm
      title={t("maintenance.title")}
      action={t(period.from ? "maintenance.planIt" : "maintenance.startNow")}
      ready={reason.trim() !== "" && (scope === "cluster" || names.length > 0)}
      testId="maintenance-form"
      onClose={onClose}
      period={period}
      onPeriod={setPeriod}
      lengthHint={t("maintenance.lengthHint")}
      save={(times) =>
        unwrap(
          client.POST("/api/v1/maintenance", {
            body: {
              ...times,
              reason: reason.trim(),
              pools: scope === "pools" ? [...names] : [],
              nodes: scope === "nodes" ? [...names] : [],
              running,
            },
          }),
        )
      }
      after={
        <Select
          label={t("maintenance.running")}
          data={(["checkpoint", "keep"] as const).map((value) => ({ value, label: t(`maintenance.way.${value}`) }))}
          value={running}
          onChange={(value) => setRunning(value === "keep" ? "keep" : "checkpoint")}
          allowDeselect={false}
        />
      }
    >
      <TextInput
        label={t("maintenance.reason")}
        description={t("maintenance.reasonHint")}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={500}
        data-autofocus
      />
      <Select
        label={t("maintenance.concerns")}
        data={(["cluster", "pools", "nodes"] as const).map((value) => ({ value, label: t(`maintenance.of.${value}`) }))}
        value={scope}
        onChange={(value) => {
          setScope((value ?? "cluster") as Scope);
          setNames([]);
        }}
        allowDeselect={false}
      />
      {scope === "cluster" ? null : (
        <Choices label={t(`maintenance.of.${scope}`)} choices={choices} chosen={names} onChange={setNames} />
      )}
    </PeriodForm>
  );
}
