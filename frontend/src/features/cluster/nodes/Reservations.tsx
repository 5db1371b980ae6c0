import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { useLiveQueries } from "../../../api/liveHooks";
import { type Node, type NodeReservation, reservations } from "../../../api/queries";
import { Clamped } from "../../../components/basics";
import { type Column, column, lead } from "../../../components/tables/DataTable";
import { Stamp, useTimeZone } from "../../../components/Time";
import { useNow } from "../../../components/useNow";
import css from "../cluster.module.css";
import { Choices, DialogButton, PeriodForm, PeriodTable } from "./Periods";
import { lengthOf, reservationLines } from "./reservationLines";

const LINES = 40;
/** Trials that are named. */
const NAMED = 3;
const WAYS = ["nodes", "num_nodes", "num_slots"] as const;

const beneficiaryOf = ({ user, project }: NodeReservation): string => user ?? project ?? "";

/** Active and planned reservations on a time line and in a table; administrators change and end them here. */
export function ReservationList({ nodes }: { nodes: readonly Node[] }) {
  const { t } = useTranslation();
  const found = useQuery(reservations).data ?? [];
  useLiveQueries("reservations", reservations.queryKey);
  const columns: Column<NodeReservation>[] = [
    lead("for", t("reservations.for"), (one) => beneficiaryOf(one)),
    column("state", t("nodes.state"), (one) => t(`maintenance.state.${one.is_active ? "active" : "planned"}`)),
    column("nodes", t("nav.nodes"), (one) => <Clamped text={one.nodes.join(", ")} />),
    column("from", t("maintenance.from"), (one) => <Stamp at={one.starts_at} />),
    column("until", t("maintenance.until"), (one) => <Stamp at={one.ends_at} />),
    column("taken", t("reservations.takesFrom"), (one) => <TakenFrom reservation={one} />),
    column("reason", t("maintenance.reason"), (one) => <Clamped text={one.reason} />),
  ];
  return (
    <PeriodTable
      rows={found}
      columns={columns}
      title={t("reservations.title")}
      guide="guides/placement#reserve-nodes"
      testId="reservations"
      endWord={(one) => t(one.is_active ? "maintenance.end" : "reservations.cancel")}
      endTitle={(one) => t("reservations.endTitle", { name: beneficiaryOf(one), nodes: one.nodes.join(", ") })}
      endText={(one) => t(one.is_active ? "reservations.endText" : "reservations.cancelText")}
      end={(id) =>
        unwrap(
          client.POST("/api/v1/reservations/{reservation_id}:cancel", { params: { path: { reservation_id: id } } }),
        )
      }
      change={(one, onClose) => <Change reservation={one} nodes={nodes} onClose={onClose} />}
    >
      <TimeLines found={found} nodes={nodes} />
    </PeriodTable>
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
  return (
    <DialogButton
      label={t("reservations.reserve")}
      testId="reserve"
      dialog={(onClose) => <Reserve nodes={nodes} onClose={onClose} />}
    />
  );
}

function Reserve({ nodes, onClose }: { nodes: readonly Node[]; onClose: () => void }) {
  const { t } = useTranslation();
  const pools = [...new Set(nodes.map((node) => node.pool))].toSorted();
  const [kind, setKind] = useState<"project" | "user">("project");
  const [name, setName] = useState("");
  const [way, setWay] = useState<(typeof WAYS)[number]>("nodes");
  const [names, setNames] = useState<readonly string[]>([]);
  const [pool, setPool] = useState(pools[0] ?? "");
  const [number, setNumber] = useState("1");
  const [period, setPeriod] = useState({ from: "", length: "8h" });
  const [reason, setReason] = useState("");
  const isCounted = /^[1-9]\d*$/.test(number.trim()) && pool !== "";
  return (
    <PeriodForm
      title={t("reservations.reserveTitle")}
      action={t("reservations.create")}
      ready={name.trim() !== "" && period.length.trim() !== "" && (way === "nodes" ? names.length > 0 : isCounted)}
      testId="reservation-form"
      onClose={onClose}
      period={period}
      onPeriod={setPeriod}
      lengthHint={t("reservations.lengthHint")}
      save={({ starts_at, ends_at }) =>
        unwrap(
          client.POST("/api/v1/reservations", {
            body: {
              [kind]: name.trim(),
              starts_at,
              ends_at: ends_at ?? "",
              reason: reason.trim(),
              nodes: way === "nodes" ? [...names] : [],
              ...(way === "nodes" ? {} : { pool, [way]: Number(number) }),
            },
          }),
        )
      }
      after={<ReasonField value={reason} onChange={setReason} />}
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
    </PeriodForm>
  );
}

/** Asks for other nodes, another time or another reason; what is as it was is not sent. */
function Change({
  reservation,
  nodes,
  onClose,
}: {
  reservation: NodeReservation;
  nodes: readonly Node[];
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const before = lengthOf(reservation);
  const [names, setNames] = useState<readonly string[]>(reservation.nodes);
  const [period, setPeriod] = useState({ from: "", length: before });
  const [reason, setReason] = useState(reservation.reason);
  const isSame = names.length === reservation.nodes.length && reservation.nodes.every((name) => names.includes(name));
  return (
    <PeriodForm
      title={t("reservations.changeTitle", { name: beneficiaryOf(reservation) })}
      ready={names.length > 0 && period.length.trim() !== ""}
      testId="reservation-form"
      onClose={onClose}
      period={period}
      onPeriod={setPeriod}
      hasBegun={reservation.is_active}
      fromHint={t("reservations.fromKept")}
      lengthHint={t("reservations.lengthFromStart")}
      save={({ starts_at, ends_at }) =>
        unwrap(
          client.PATCH("/api/v1/reservations/{reservation_id}", {
            params: { path: { reservation_id: reservation.id } },
            body: {
              starts_at,
              ends_at: starts_at === null && ends_at === before ? null : ends_at,
              nodes: isSame ? null : [...names],
              reason: reason.trim() === reservation.reason ? null : reason.trim(),
            },
          }),
        )
      }
      after={<ReasonField value={reason} onChange={setReason} />}
    >
      <Choices
        label={t("nav.nodes")}
        choices={[...new Set([...reservation.nodes, ...nodes.map((node) => node.name)])].toSorted()}
        chosen={names}
        onChange={setNames}
      />
    </PeriodForm>
  );
}

function ReasonField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const { t } = useTranslation();
  return (
    <TextInput
      label={t("maintenance.reason")}
      description={t("reservations.reasonHint")}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      maxLength={500}
    />
  );
}
