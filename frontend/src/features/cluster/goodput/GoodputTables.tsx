import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { Goodput, GoodputBy } from "../../../api/queries";
import { Kind, MiniBar } from "../../../common/goodput/GoodputBar";
import { CLASS_COLORS, piecesOf, slotTime } from "../../../common/goodput/pieces";
import { Clamped } from "../../../components/basics";
import { amount } from "../../../components/BudgetBars";
import { type Column, column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import tableCss from "../../../components/tables/dataTable.module.css";
import { Reason } from "../../../components/text/Message";
import { word } from "../../../i18n/words";
import * as format from "../../../lib/format";
import css from "./goodputPage.module.css";

type Loss = Goodput["losses"][number];
type Group = Goodput["groups"][number];
type LosingTrial = Goodput["trials"][number];

/** The column of what slot time costs; there is none where no pool has a price. */
function useCost<Row extends { cost: number }>({ cost, currency }: Goodput): Column<Row>[] {
  const { t } = useTranslation();
  if (cost === 0) return [];
  return [numeric("cost", t("goodput.cost"), (row) => `${amount(row.cost)} ${currency}`)];
}

/** The largest losses, and what to do about each. */
export function LossTable({ data }: { data: Goodput }) {
  const { t } = useTranslation();
  const columns: Column<Loss>[] = [
    lead("kind", t("goodput.lossKind"), ({ kind }) => <Kind kind={kind} color={CLASS_COLORS[kind]} />, { width: 140 }),
    numeric("hours", t("goodput.slotTime"), (loss) => slotTime(t, loss.slot_s)),
    numeric("share", t("goodput.share"), (loss) => format.pct(loss.share)),
    ...useCost<Loss>(data),
    column("advice", t("goodput.advice"), ({ kind }) => (
      <span className={css["advice"]}>
        <Reason text={word(t, "goodput.remedies", kind, "")} parts={undefined} />
      </span>
    )),
  ];
  return (
    <DataTable
      rows={data.losses}
      rowKey={({ kind }) => kind}
      label={t("goodput.losses")}
      columns={columns}
      testId="goodput-losses"
    />
  );
}

interface GroupProps {
  data: Goodput;
  by: GoodputBy;
  onOnly: (name: string) => void;
}

/** Slot-hours by project, pool or person; a click on a name shows that one alone. */
export function GroupTable({ data, by, onOnly }: GroupProps) {
  const { t } = useTranslation();
  const columns: Column<Group>[] = [
    lead("name", t(`goodput.by.${by}`), ({ name }) =>
      name === "" ? (
        <span className="dim">{t("goodput.nameless")}</span>
      ) : (
        <button
          type="button"
          className={tableCss["sort"]}
          onClick={() => onOnly(name)}
          title={t("goodput.only", { name })}
        >
          {name}
        </button>
      ),
    ),
    numeric("held", t("goodput.slotTime"), (group) => slotTime(t, group.allocated_s)),
    numeric("productive", word(t, "goodput.kind", "productive"), (group) =>
      format.pct((group.classes["productive"] ?? 0) / group.allocated_s),
    ),
    column("bar", t("goodput.whole"), (group) => <MiniBar pieces={piecesOf(group.classes)} label={group.name} />, {
      width: 300,
    }),
    ...useCost<Group>(data),
  ];
  return (
    <DataTable
      rows={data.groups}
      rowKey={({ name }) => name}
      label={t(`goodput.by.${by}`)}
      columns={columns}
      testId="goodput-groups"
    />
  );
}

/** The trials that lost most, with the way to their own ledger. */
export function TrialTable({ data }: { data: Goodput }) {
  const { t } = useTranslation();
  const columns: Column<LosingTrial>[] = [
    lead("trial", t("trials.trial"), ({ trial_id: id, address, name }) => (
      <Link to="/trials/$trialId" params={{ trialId: String(id) }} search={{ tab: "goodput" }}>
        <Clamped text={`${address} · ${name}`} />
      </Link>
    )),
    numeric("lost", t("goodput.lost"), (trial) => slotTime(t, trial.lost_s)),
    numeric("share", t("goodput.lostShare"), (trial) => format.pct(trial.lost_s / trial.allocated_s)),
    column("largest", t("goodput.mostly"), ({ largest }) => <Kind kind={largest} color={CLASS_COLORS[largest]} />),
  ];
  return (
    <DataTable
      rows={data.trials}
      rowKey={(trial) => trial.trial_id}
      label={t("goodput.trials")}
      columns={columns}
      testId="goodput-trials"
    />
  );
}
