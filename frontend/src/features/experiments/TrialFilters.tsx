import { Button, Group, MultiSelect, Popover, Select, TextInput } from "@mantine/core";
import { IconColumns3, IconFilter, IconX } from "@tabler/icons-react";
import type { TFunction } from "i18next";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import filterCss from "../../components/tables/filters.module.css";
import css from "./list/table.module.css";
import { MAX_CONDITIONS } from "./list/Conditions";
import { canSort, conditionsOf, isNamed, MAX_SHOWN, TRIAL_BUILT_INS, trialColumnName } from "./trialColumns";

export function trialColumnText(t: TFunction, id: string, metricName: string | null): string {
  if (id === "metric") return metricName ?? t("experiment.metric");
  if (isNamed(id)) return t(`trials.columns.${id}`);
  const { name, of } = trialColumnName(id);
  return of === null || of === "last" ? name : `${name} · ${t(`table.of.${of}`)}`;
}

interface Choice {
  hparams: readonly string[];
  metrics: readonly string[];
  metricName: string | null;
}

/** Every column of the trials, in groups; `builtIns`: those of every trial. */
function useChoice({ hparams, metrics, metricName }: Choice, builtIns: readonly string[]) {
  const { t } = useTranslation();
  const items = (ids: readonly string[]) =>
    ids.map((value) => ({ value, label: trialColumnText(t, value, metricName) }));
  return [
    { group: t("trials.columns.trial"), items: items(builtIns) },
    { group: t("trials.columns.hparams"), items: items(hparams.map((name) => `hparam.${name}`)) },
    {
      group: t("trials.columns.metrics"),
      items: items(metrics.flatMap((name) => (["last", "min", "max"] as const).map((of) => `metric.${of}.${name}`))),
    },
  ].filter((group) => group.items.length > 0);
}

/** Which columns the table has. */
export function TrialColumnPicker({
  columns,
  choice,
  onChange,
}: {
  columns: readonly string[];
  choice: Choice;
  onChange: (columns: readonly string[]) => void;
}) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const data = useChoice(choice, TRIAL_BUILT_INS);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <Button
          variant="subtle"
          color="gray"
          size="compact-xs"
          leftSection={<IconColumns3 size={14} aria-hidden />}
          onClick={() => setOpened(!opened)}
          data-testid="trial-columns"
        >
          {t("rows.columns")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={css["picker"]}>
          <MultiSelect
            aria-label={t("rows.columns")}
            placeholder={t("table.columns.find")}
            searchable
            limit={200}
            maxValues={MAX_SHOWN}
            hidePickedOptions
            comboboxProps={{ withinPortal: false }}
            value={[...columns]}
            data={data}
            onChange={onChange}
            data-autofocus
          />
          <Button variant="subtle" size="compact-xs" onClick={() => onChange([])}>
            {t("table.columns.reset")}
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

/** Those that the server compares. */
const COMPARABLE = TRIAL_BUILT_INS.filter(canSort);

/** A range or a value of any column. */
export function AddTrialFilter({ choice, onAdd }: { choice: Choice; onAdd: (conditions: string[]) => void }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [column, setColumn] = useState<string | null>(null);
  const [low, setLow] = useState("");
  const [high, setHigh] = useState("");
  const [equals, setEquals] = useState("");
  const data = useChoice(choice, COMPARABLE);
  const made = column === null ? [] : conditionsOf(column, low, high, equals);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (made.length === 0) return;
    onAdd(made);
    setOpened(false);
    for (const clear of [setLow, setHigh, setEquals]) clear("");
  };
  const isNumber = (text: string): boolean => text.trim() === "" || Number.isFinite(Number(text));
  const field = (label: string, value: string, set: (value: string) => void, check: boolean) => (
    <TextInput
      label={label}
      value={value}
      onChange={(event) => set(event.currentTarget.value)}
      error={check && !isNumber(value) ? t("chart.noNumber") : undefined}
    />
  );
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-start" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <Button
          variant="subtle"
          color="gray"
          size="compact-xs"
          leftSection={<IconFilter size={14} aria-hidden />}
          onClick={() => setOpened(!opened)}
          data-testid="trial-filter"
        >
          {t("trials.filter")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form className={css["picker"]} onSubmit={submit} data-testid="trial-filter-form">
          <Select
            label={t("table.where.column")}
            searchable
            limit={200}
            comboboxProps={{ withinPortal: false }}
            value={column}
            data={data}
            onChange={setColumn}
            data-autofocus
          />
          <Group grow align="flex-start">
            {field(t("trials.from"), low, setLow, true)}
            {field(t("trials.to"), high, setHigh, true)}
          </Group>
          {field(t("trials.equals"), equals, setEquals, false)}
          <Button type="submit" disabled={made.length === 0 || !isNumber(low) || !isNumber(high)}>
            {t("table.where.apply")}
          </Button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}

/** The conditions that hold, each with a button that takes it away. */
export function TrialConditions({
  conditions,
  onChange,
}: {
  conditions: readonly string[];
  onChange: (conditions: string[]) => void;
}) {
  const { t } = useTranslation();
  return (
    <>
      {conditions.map((condition) => (
        <button
          key={condition}
          type="button"
          className={filterCss["chip"]}
          aria-pressed
          aria-label={t("table.where.remove", { condition })}
          onClick={() => onChange(conditions.filter((one) => one !== condition))}
        >
          <span className="mono">{condition}</span> <IconX size={12} aria-hidden />
        </button>
      ))}
      {conditions.length > MAX_CONDITIONS ? (
        <span className="dim">{t("trials.tooManyFilters", { max: MAX_CONDITIONS })}</span>
      ) : null}
    </>
  );
}
