import { Button, Menu, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import type { ExperimentsSearch } from "../../../app/search";
import { FilterBar, FilterMenu, SetFilter } from "../../../components/tables/FilterBar";
import { StateBadge, stateWord } from "../../../components/StateBadge";
import { useTyped } from "../../../components/useTyped";
import { EXPERIMENT_STATES } from "../../../lib/states";
import type { Asked } from "./asked";
import { ColumnPicker } from "./ColumnPicker";
import { AddCondition, MAX_CONDITIONS } from "./Conditions";
import { GroupPicker } from "./GroupPicker";
import { addedCondition, toggled, writeColumns, writeConditions } from "./tableColumns";

interface Props {
  search: ExperimentsSearch;
  asked: Asked;
  set: (change: Partial<ExperimentsSearch>) => void;
  /** Null: nothing is filtered. */
  onClear: (() => void) | null;
}

/** What of all experiments is shown, in which groups, and with which columns. */
export function Filters({ search, asked: { states, labels, where, columns }, set, onClear }: Props) {
  const { t } = useTranslation();
  const [text, setText] = useTyped(search.q, 250, (q) => set({ q }));
  const numActive =
    Number(states.length > 0) +
    Number(search.archived ?? false) +
    Number(search.project !== undefined) +
    labels.length +
    where.length;
  return (
    <FilterBar
      numActive={numActive}
      find={
        <TextInput
          aria-label={t("experiments.find")}
          placeholder={t("experiments.find")}
          leftSection={<IconSearch size={14} />}
          size="xs"
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          data-testid="experiment-filter"
          data-filter
        />
      }
    >
      <FilterMenu
        label={t("experiments.state")}
        options={EXPERIMENT_STATES.map((state) => ({
          value: state,
          label: <StateBadge state={state} plain />,
          text: stateWord(t, state),
        }))}
        chosen={states}
        onChange={(next) => set({ state: next.length > 0 ? next.join(",") : undefined })}
        testId="state-filter"
      >
        <Menu.Divider />
        <Menu.CheckboxItem
          checked={search.archived ?? false}
          onChange={() => set({ archived: search.archived ? undefined : true })}
        >
          {t("experiments.withArchived")}
        </Menu.CheckboxItem>
      </FilterMenu>
      {where.length < MAX_CONDITIONS ? (
        <AddCondition
          project={search.project}
          onAdd={(condition) => set({ where: addedCondition(search.where, condition) })}
        />
      ) : null}
      <SetFilters {...{ search, labels, where, set }} />
      {onClear ? (
        <Button variant="subtle" size="compact-xs" onClick={onClear}>
          {t("common.clearFilters")}
        </Button>
      ) : null}
      <div data-end>
        <GroupPicker by={search.group} project={search.project} onChange={(group) => set({ group })} />
        <ColumnPicker
          columns={columns}
          project={search.project}
          onChange={(next) => set({ cols: next === null ? undefined : writeColumns(next) })}
        />
      </div>
    </FilterBar>
  );
}

/** What is set beside states and name, each to be taken away. */
function SetFilters({
  search,
  labels,
  where,
  set,
}: Pick<Props, "search" | "set"> & { labels: string[]; where: string[] }) {
  const { t } = useTranslation();
  return (
    <>
      {search.archived ? (
        <SetFilter text={t("experiments.archived")} onRemove={() => set({ archived: undefined })} />
      ) : null}
      {search.project ? (
        <SetFilter
          text={`${t("experiments.project")}: ${search.project}`}
          onRemove={() => set({ project: undefined })}
        />
      ) : null}
      {labels.map((label) => (
        <SetFilter key={label} text={label} onRemove={() => set({ label: toggled(labels, label) })} />
      ))}
      {where.map((condition) => (
        <SetFilter
          key={condition}
          text={condition}
          label={t("table.where.remove", { condition })}
          onRemove={() => set({ where: writeConditions(where.filter((one) => one !== condition)) })}
          testId="condition"
        />
      ))}
    </>
  );
}
