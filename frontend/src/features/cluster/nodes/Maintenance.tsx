import { Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { maintenance, type MaintenanceWindow, me, type Node } from "../../../api/queries";
import { scopeOf, whoOf } from "../../../common/nodes/maintenance";
import { Clamped, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { FormDialog } from "../../../components/dialogs/FormDialog";
import { actions, type Column, column, DataTable, lead } from "../../../components/tables/DataTable";
import { Stamp, useTimeZone } from "../../../components/Time";
import type { TimeZone } from "../../../lib/time";
import css from "../cluster.module.css";

type Scope = "cluster" | "pools" | "nodes";

/** Active and planned windows; nothing where there are none. Administrators end them here. */
export function MaintenanceList() {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  const found = useQuery(maintenance).data ?? [];
  const [ending, setEnding] = useState<MaintenanceWindow | null>(null);
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
    ...(isAdmin
      ? [
          actions("end", t("common.rowActions"), (window: MaintenanceWindow) => (
            <Button variant="subtle" size="compact-xs" onClick={() => setEnding(window)} data-testid="maintenance-end">
              {t("maintenance.end")}
            </Button>
          )),
        ]
      : []),
  ];
  return (
    <>
      {found.length === 0 ? null : (
        <Section guide="guides/operations#maintenance" title={t("maintenance.title")}>
          <DataTable
            rows={found}
            columns={columns}
            rowKey={(window) => window.id}
            label={t("maintenance.title")}
            testId="maintenance"
          />
        </Section>
      )}
      {ending === null ? null : (
        <ConfirmAction
          onClose={() => setEnding(null)}
          title={t("maintenance.endTitle", { scope: scopeOf(t, ending) })}
          action={t("maintenance.end")}
          run={() =>
            unwrap(client.POST("/api/v1/maintenance/{window_id}:end", { params: { path: { window_id: ending.id } } }))
          }
        >
          {t(ending.is_active ? "maintenance.endText" : "maintenance.callOffText")}
        </ConfirmAction>
      )}
    </>
  );
}

/** The moment of a date and time that was typed; null for none. */
export const momentOf = (typed: string, zone: TimeZone): string | null =>
  typed ? new Date(zone === "utc" ? `${typed}Z` : typed).toISOString() : null;

/** Names to tick. */
export function Choices(props: {
  label: string;
  choices: readonly string[];
  chosen: readonly string[];
  onChange: (names: string[]) => void;
}) {
  const { chosen, onChange } = props;
  return (
    <fieldset className={css["choice"]}>
      <legend>{props.label}</legend>
      {props.choices.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
            }
          />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Asks what is to be maintained, when and why. */
export function MaintenanceButton({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  return (
    <>
      <Button variant="default" onClick={() => setOpened(true)} data-testid="maintenance-plan">
        {t("maintenance.plan")}
      </Button>
      {opened ? <Plan nodes={nodes} onClose={() => setOpened(false)} /> : null}
    </>
  );
}

function Plan({ nodes, onClose }: { nodes: readonly Node[]; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const zone = useTimeZone();
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState<Scope>("cluster");
  const [names, setNames] = useState<readonly string[]>([]);
  const [from, setFrom] = useState("");
  const [length, setLength] = useState("1h");
  const [running, setRunning] = useState<Schemas["MaintenanceIn"]["running"]>("checkpoint");
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/maintenance", {
          body: {
            reason: reason.trim(),
            starts_at: momentOf(from, zone),
            ends_at: length.trim() || null,
            pools: scope === "pools" ? [...names] : [],
            nodes: scope === "nodes" ? [...names] : [],
            running,
          },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  const choices = scope === "pools" ? [...new Set(nodes.map((node) => node.pool))] : nodes.map((node) => node.name);
  return (
    <FormDialog
      title={t("maintenance.title")}
      action={t(from ? "maintenance.planIt" : "maintenance.startNow")}
      ready={reason.trim() !== "" && (scope === "cluster" || names.length > 0)}
      pending={save.isPending}
      error={save.error}
      testId="maintenance-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
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
      <TextInput
        type="datetime-local"
        label={t("maintenance.from")}
        description={t(zone === "utc" ? "maintenance.fromHintUtc" : "maintenance.fromHint")}
        value={from}
        onChange={(event) => setFrom(event.currentTarget.value)}
      />
      <TextInput
        label={t("maintenance.length")}
        description={t("maintenance.lengthHint")}
        value={length}
        onChange={(event) => setLength(event.currentTarget.value)}
      />
      <Select
        label={t("maintenance.running")}
        data={(["checkpoint", "keep"] as const).map((value) => ({ value, label: t(`maintenance.way.${value}`) }))}
        value={running}
        onChange={(value) => setRunning(value === "keep" ? "keep" : "checkpoint")}
        allowDeselect={false}
      />
    </FormDialog>
  );
}
