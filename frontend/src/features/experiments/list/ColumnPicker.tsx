import { ActionIcon, Button, Popover, SegmentedControl, TextInput } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { experimentColumns } from "../../../api/queries";
import { ColumnsButton, DensityChoice } from "../../../components/tables/TableOptions";
import { headText } from "./cells";
import css from "./table.module.css";
import { added, BUILT_INS, moved, removed, type TableColumn } from "./tableColumns";

const SHOWN = 60;
const STATISTICS = ["last", "min", "max", "best"] as const;

/** A column in words, as a list of columns shows it. */
export function named(t: TFunction, id: string): string {
  const { name, of } = headText(t, id);
  return of ? `${name} · ${of}` : name;
}

/** Which columns, in what order; any key of the document, hyperparameter or metric can be one. */
export function ColumnPicker({
  columns,
  project,
  onChange,
}: {
  columns: TableColumn[];
  project: string | undefined;
  onChange: (columns: TableColumn[] | null) => void;
}) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [text, setText] = useState("");
  const [statistic, setStatistic] = useState<(typeof STATISTICS)[number]>("last");
  const found = useQuery({ ...experimentColumns(project), enabled: opened }).data;
  // The button that was pressed may be gone with its entry: the focus stays in the list of columns.
  const input = useRef<HTMLInputElement>(null);
  const change = (next: TableColumn[]): void => {
    input.current?.focus();
    onChange(next);
  };
  const chosen = new Set(columns.map(({ id }) => id));
  const offered = [
    ...BUILT_INS.map((id) => ({ id: id as string, num: null as number | null })),
    ...(found?.items ?? []).map((item) => ({
      id: item.column.replace(/^metric\.last\./, `metric.${statistic}.`),
      num: item.num_experiments,
    })),
  ].filter(({ id }) => !chosen.has(id) && `${id} ${named(t, id)}`.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <ColumnsButton onClick={() => setOpened(!opened)} />
      </Popover.Target>
      <Popover.Dropdown>
        <div className={css["picker"]} data-testid="column-picker">
          <TextInput
            ref={input}
            aria-label={t("table.columns.find")}
            placeholder={t("table.columns.find")}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            data-autofocus
          />
          <ul className={css["list"]} data-testid="columns-offered">
            {offered.slice(0, SHOWN).map(({ id, num }) => (
              <li key={id}>
                <button
                  type="button"
                  data-add
                  onClick={() => change(added(columns, id))}
                  title={t("table.columns.add", { name: id })}
                >
                  <span>{named(t, id)}</span>
                  <span className="dim num">{num ?? ""}</span>
                </button>
              </li>
            ))}
            {offered.length === 0 ? <li className="dim">{t("table.columns.none")}</li> : null}
          </ul>
          {offered.length > SHOWN ? (
            <span className="dim">{t("table.columns.some", { n: offered.length - SHOWN })}</span>
          ) : null}
          {found ? <span className="dim">{t("table.columns.from", { count: found.num_searched })}</span> : null}
          <span className={css["pickerHead"]}>{t("table.columns.statistic")}</span>
          <SegmentedControl
            size="xs"
            value={statistic}
            onChange={(value) => setStatistic(value as typeof statistic)}
            data={STATISTICS.map((value) => ({ value, label: t(`table.of.${value}`) }))}
            aria-label={t("table.columns.statistic")}
          />
          <span className={css["pickerHead"]}>{t("table.columns.chosen")}</span>
          <ChosenColumns columns={columns} onMove={onChange} onRemove={change} />
          <DensityChoice />
          <Button variant="subtle" size="compact-xs" onClick={() => onChange(null)}>
            {t("table.columns.reset")}
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

/** The columns of the table in their order, each with buttons that move or remove it. */
function ChosenColumns({
  columns,
  onMove,
  onRemove,
}: {
  columns: TableColumn[];
  onMove: (columns: TableColumn[]) => void;
  onRemove: (columns: TableColumn[]) => void;
}) {
  const { t } = useTranslation();
  return (
    <ul className={css["list"]} data-testid="columns-chosen">
      {columns.map(({ id }, at) => (
        <li key={id}>
          <span title={id}>{named(t, id)}</span>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            disabled={at === 0}
            aria-label={t("table.columns.up", { name: named(t, id) })}
            onClick={() => onMove(moved(columns, id, -1))}
          >
            <IconChevronUp size={14} />
          </ActionIcon>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            disabled={at === columns.length - 1}
            aria-label={t("table.columns.down", { name: named(t, id) })}
            onClick={() => onMove(moved(columns, id, 1))}
          >
            <IconChevronDown size={14} />
          </ActionIcon>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            disabled={id === "name"}
            aria-label={t("table.columns.remove", { name: named(t, id) })}
            onClick={() => onRemove(removed(columns, id))}
          >
            <IconX size={14} />
          </ActionIcon>
        </li>
      ))}
    </ul>
  );
}
