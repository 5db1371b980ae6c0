import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentFilter, type ExperimentGroup, experimentGroups } from "../../../api/queries";
import { Empty } from "../../../components/basics";
import { type Column, column, DataTable } from "../../../components/tables/DataTable";
import { QueryView } from "../../../components/QueryView";
import { stateWord } from "../../../components/StateBadge";
import uiCss from "../../../components/ui.module.css";
import * as format from "../../../lib/format";
import { headText, valueText } from "./cells";
import { named } from "./ColumnPicker";
import { type GroupOrder, ordered } from "./groups";
import css from "./table.module.css";
import { groupCondition } from "./tableColumns";

interface Props {
  by: string;
  filter: ExperimentFilter;
  columns: string[];
  /** Shows the experiments of one group. */
  onOpen: (condition: string) => void;
}

/** The experiments in groups: how many, in which states, and statistics of the columns of numbers. */
export function GroupTable({ by, filter, columns, onOpen }: Props) {
  const { t } = useTranslation();
  const query = useQuery(experimentGroups(filter, by, columns));
  const [order, setOrder] = useState<GroupOrder>({ by: "size", down: true });
  const tableColumns = useColumns(by, columns, order, setOrder, onOpen);
  return (
    <QueryView query={query}>
      {(data) =>
        data.items.length === 0 ? (
          <Empty title={t("experiments.noMatch")} />
        ) : (
          <>
            <DataTable
              rows={ordered(data.items, order)}
              rowKey={(group) => JSON.stringify(group.value)}
              label={t("table.group.byKey", { key: named(t, by) })}
              columns={tableColumns}
              testId="groups"
            />
            <div className={css["foot"]}>
              {data.num_groups > data.items.length
                ? t("table.group.some", { n: data.items.length, all: format.count(data.num_groups) })
                : t("table.group.all", { count: data.num_groups })}
            </div>
          </>
        )
      }
    </QueryView>
  );
}

function useColumns(
  by: string,
  columns: string[],
  order: GroupOrder,
  setOrder: (order: GroupOrder) => void,
  onOpen: Props["onOpen"],
): Column<ExperimentGroup>[] {
  const { t } = useTranslation();
  const sort = (id: string, downFirst: boolean): Column<ExperimentGroup>["sort"] => ({
    direction: order.by === id ? (order.down ? "desc" : "asc") : null,
    toggle: () => setOrder({ by: id, down: order.by === id ? !order.down : downFirst }),
  });
  return [
    {
      id: "value",
      header: named(t, by),
      lead: true,
      sort: sort("value", false),
      cell: (group) => <GroupName by={by} group={group} onOpen={onOpen} />,
    },
    {
      id: "size",
      header: t("nav.experiments"),
      align: "right",
      sort: sort("size", true),
      cell: (group) => format.count(group.num_experiments),
    },
    column("states", t("experiments.state"), (group) => (
      <span className="dim">
        {Object.entries(group.num_by_state)
          .map(([state, n]) => `${n} ${stateWord(t, state)}`)
          .join(" · ")}
      </span>
    )),
    ...columns.map((id): Column<ExperimentGroup> => {
      const { name, of } = headText(t, id);
      return {
        id,
        header: of ? `${name} (${of})` : name,
        align: "right",
        sort: sort(id, false),
        cell: (group) => <Statistics id={id} of={group.columns[id]} />,
      };
    }),
  ];
}

function GroupName({ by, group, onOpen }: { by: string; group: ExperimentGroup; onOpen: Props["onOpen"] }) {
  const { t } = useTranslation();
  const text =
    group.value === null
      ? t("table.group.missing")
      : by === "state"
        ? stateWord(t, String(group.value))
        : String(group.value);
  const condition = groupCondition(by, group.value);
  if (condition === null) return <span title={text}>{text}</span>;
  return (
    <button type="button" className={uiCss["link"]} title={text} onClick={() => onOpen(condition)} data-testid="group">
      {text}
    </button>
  );
}

/** The mean, and the range where there is one; all of it in the tooltip. */
function Statistics({ id, of }: { id: string; of: ExperimentGroup["columns"][string] | undefined }) {
  const { t } = useTranslation();
  if (!of || of.mean === null || of.min === null || of.max === null) return format.MISSING;
  const [mean, min, max] = [of.mean, of.min, of.max].map((value) => valueText(id, value)) as [string, string, string];
  return (
    <span title={t("table.group.statistics", { mean, min, max, count: of.num_values })}>
      {mean} {of.min < of.max ? <span className={css["range"]}>{`${min} – ${max}`}</span> : null}
    </span>
  );
}
