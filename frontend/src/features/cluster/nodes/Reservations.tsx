import { Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { useLiveQueries } from "../../../api/liveHooks";
import { me, type Node, type NodeReservation, reservations } from "../../../api/queries";
import { Clamped, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { FormDialog } from "../../../components/dialogs/FormDialog";
import { actions, type Column, column, DataTable, lead } from "../../../components/tables/DataTable";
import { Stamp, useTimeZone } from "../../../components/Time";
import { useNow } from "../../../components/useNow";
import css from "../cluster.module.css";
import { Choices, momentOf } from "./Maintenance";
import { reservationLines } from "./reservationLines";

const LINES = 40;
/** Trials that are named. */
const NAMED = 3;
const WAYS = ["nodes", "num_nodes", "num_slots"] as const;

const beneficiaryOf = ({ user, project }: NodeReservation): string => user ?? project ?? "";

/** Active and planned reservations on a time line and in a table; nothing where there are none. */
export function ReservationList({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  const found = useQuery(reservations).data ?? [];
  useLiveQueries("reservations", reservations.queryKey);
  const [ending, setEnding] = useState<NodeReservation | null>(null);
  const columns: Column<NodeReservation>[] = [
    lead("for", t("reservations.for"), (one) => beneficiaryOf(one)),
    column("state", t("nodes.state"), (one) => t(`maintenance.state.${one.is_active ? "active" : "planned"}`)),
    column("nodes", t("nav.nodes"), (one) => <Clamped text={one.nodes.join(", ")} />),
    column("from", t("maintenance.from"), (one) => <Stamp at={one.starts_at} />),
    column("until", t("maintenance.until"), (one) => <Stamp at={one.ends_at} />),
    column("taken", t("reservations.takesFrom"), (one) => <TakenFrom reservation={one} />),
    column("reason", t("maintenance.reason"), (one) => <Clamped text={one.reason} />),
    ...(isAdmin
      ? [
          actions("cancel", t("common.rowActions"), (one: NodeReservation) => (
            <Button variant="subtle" size="compact-xs" onClick={() => setEnding(one)} data-testid="reservation-cancel">
              {t(one.is_active ? "maintenance.end" : "reservations.cancel")}
            </Button>
          )),
        ]
      : []),
  ];
  return (
    <>
      {found.length === 0 ? null : (
        <Section guide="guides/placement#reserve-nodes" title={t("reservations.title")}>
          <TimeLines found={found} nodes={nodes} />
          <DataTable
            rows={found}
            columns={columns}
            rowKey={(one) => one.id}
            label={t("reservations.title")}
            testId="reservations"
          />
        </Section>
      )}
      {ending === null ? null : (
        <ConfirmAction
          onClose={() => setEnding(null)}
          title={t("reservations.endTitle", { name: beneficiaryOf(ending), nodes: ending.nodes.join(", ") })}
          action={t(ending.is_active ? "maintenance.end" : "reservations.cancel")}
          run={() =>
            unwrap(
              client.POST("/api/v1/reservations/{reservation_id}:cancel", {
                params: { path: { reservation_id: ending.id } },
              }),
            )
          }
        >
          {t(ending.is_active ? "reservations.endText" : "reservations.cancelText")}
        </ConfirmAction>
      )}
    </>
  );
}

/** A line for each reserved node, from now to the last end. */
function TimeLines({ found, nodes }: { found: readonly NodeReservation[]; nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const { lines, ticks } = reservationLines(found, useNow(), useTimeZone());
  const ids = new Map(nodes.map((node) => [node.name, node.id]));
  return (
    <div className={css["timeLines"]} data-testid="reservation-lines">
      <div className={css["timeTicks"]} aria-hidden>
        {ticks.map(({ left, label }) => (
          <span key={label} style={{ left: `${left}%` }} data-late={left > 85 || undefined}>
            {label}
          </span>
        ))}
      </div>
      {lines.slice(0, LINES).map(({ name, bars }) => (
        <div key={name} className={css["timeLine"]}>
          <Link to="/nodes/$nodeId" params={{ nodeId: ids.get(name) ?? name }} title={name}>
            {name}
          </Link>
          <div>
            {bars.map(({ reservation, left, width }) => (
              <span
                key={reservation.id}
                style={{ left: `${left}%`, width: `${width}%` }}
                data-active={reservation.is_active || undefined}
                title={`${beneficiaryOf(reservation)}: ${reservation.reason || t("reservations.title")}`}
              >
                {beneficiaryOf(reservation)}
              </span>
            ))}
          </div>
        </div>
      ))}
      {lines.length > LINES ? (
        <p className="dim">{t("reservations.moreNodes", { count: lines.length - LINES })}</p>
      ) : null}
    </div>
  );
}

function TakenFrom({ reservation }: { reservation: NodeReservation }) {
  const { t } = useTranslation();
  const named = reservation.taken_from.slice(0, NAMED);
  const more = reservation.num_taken_from - named.length;
  if (named.length === 0) return "–";
  return (
    <span>
      {named.map((trial, index) => (
        <span key={trial.trial_id}>
          {index > 0 ? ", " : null}
          <Link to="/trials/$trialId" params={{ trialId: String(trial.trial_id) }}>
            {`${trial.experiment_id}.${trial.trial_no}`}
          </Link>
        </span>
      ))}
      {more > 0 ? ` ${t("overview.moreAttention", { count: more })}` : null}
    </span>
  );
}

/** Asks which nodes are to be reserved, for whom and when. */
export function ReserveButton({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  return (
    <>
      <Button variant="default" onClick={() => setOpened(true)} data-testid="reserve">
        {t("reservations.reserve")}
      </Button>
      {opened ? <Reserve nodes={nodes} onClose={() => setOpened(false)} /> : null}
    </>
  );
}

function Reserve({ nodes, onClose }: { nodes: readonly Node[]; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const zone = useTimeZone();
  const pools = [...new Set(nodes.map((node) => node.pool))].toSorted();
  const [kind, setKind] = useState<"project" | "user">("project");
  const [name, setName] = useState("");
  const [way, setWay] = useState<(typeof WAYS)[number]>("nodes");
  const [names, setNames] = useState<readonly string[]>([]);
  const [pool, setPool] = useState(pools[0] ?? "");
  const [number, setNumber] = useState("1");
  const [from, setFrom] = useState("");
  const [length, setLength] = useState("8h");
  const [reason, setReason] = useState("");
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/reservations", {
          body: {
            [kind]: name.trim(),
            starts_at: momentOf(from, zone),
            ends_at: length.trim(),
            reason: reason.trim(),
            nodes: way === "nodes" ? [...names] : [],
            ...(way === "nodes" ? {} : { pool, [way]: Number(number) }),
          },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  const isCounted = /^[1-9]\d*$/.test(number.trim()) && pool !== "";
  return (
    <FormDialog
      title={t("reservations.reserveTitle")}
      action={t("reservations.create")}
      ready={name.trim() !== "" && length.trim() !== "" && (way === "nodes" ? names.length > 0 : isCounted)}
      pending={save.isPending}
      error={save.error}
      testId="reservation-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Select
        label={t("reservations.for")}
        description={t("reservations.forHint")}
        data={(["project", "user"] as const).map((value) => ({ value, label: t(`reservations.of.${value}`) }))}
        value={kind}
        onChange={(value) => setKind(value === "user" ? "user" : "project")}
        allowDeselect={false}
      />
      <TextInput
        label={t(`reservations.name.${kind}`)}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
      />
      <Select
        label={t("reservations.what")}
        data={WAYS.map((value) => ({ value, label: t(`reservations.way.${value}`) }))}
        value={way}
        onChange={(value) => setWay((value ?? "nodes") as typeof way)}
        allowDeselect={false}
      />
      {way === "nodes" ? (
        <Choices label={t("nav.nodes")} choices={nodes.map((node) => node.name)} chosen={names} onChange={setNames} />
      ) : (
        <>
          <Select
            label={t("reservations.pool")}
            description={t("reservations.poolHint")}
            data={pools}
            value={pool}
            onChange={(value) => setPool(value ?? "")}
            allowDeselect={false}
          />
          <TextInput
            label={t(`reservations.number.${way}`)}
            value={number}
            onChange={(event) => setNumber(event.currentTarget.value)}
            inputMode="numeric"
          />
        </>
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
        description={t("reservations.lengthHint")}
        value={length}
        onChange={(event) => setLength(event.currentTarget.value)}
      />
      <TextInput
        label={t("maintenance.reason")}
        description={t("reservations.reasonHint")}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={500}
      />
    </FormDialog>
  );
}
