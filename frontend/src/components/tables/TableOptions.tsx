import { Button, Checkbox, Popover, SegmentedControl } from "@mantine/core";
import { IconColumns3 } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { canHide, shownIds, toggledId } from "../../lib/series/columns";
import { DENSITIES, type Density, useDensity } from "../../lib/density";
import { usePref } from "../../lib/prefs";
import type { Column } from "./DataTable";
import css from "./filters.module.css";

/** The columns of a table that somebody has not hidden, and the button that chooses them. */
export function useColumnChoice<T>(
  name: string,
  all: readonly Column<T>[],
): { columns: Column<T>[]; picker: ReactNode } {
  const [kept, keep] = usePref(`columns.${name}`);
  const shown = shownIds(all, kept);
  return {
    columns: all.filter(({ id }) => shown.has(id)),
    picker: (
      <ColumnChoice
        columns={all.filter(canHide)}
        shown={shown}
        onToggle={(id) => keep(toggledId(kept, id))}
        onReset={kept === null ? null : () => keep(null)}
      />
    ),
  };
}

interface ChoiceProps {
  columns: readonly { id: string; header: string }[];
  shown: ReadonlySet<string>;
  onToggle: (id: string) => void;
  /** Null: everything is as by default. */
  onReset: (() => void) | null;
}

function ColumnChoice({ columns, shown, onToggle, onReset }: ChoiceProps) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <ColumnsButton onClick={() => setOpened(!opened)} />
      </Popover.Target>
      <Popover.Dropdown>
        <div className={css["options"]} data-testid="column-choice">
          {columns.map(({ id, header }) => (
            <Checkbox key={id} size="xs" label={header} checked={shown.has(id)} onChange={() => onToggle(id)} />
          ))}
          <DensityChoice />
          {onReset ? (
            <Button variant="subtle" size="compact-xs" onClick={onReset}>
              {t("rows.reset")}
            </Button>
          ) : null}
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

/** The button that opens what a table shows, the same above every table. */
export function ColumnsButton({ onClick, ...rest }: { onClick: () => void } & Record<string, unknown>) {
  const { t } = useTranslation();
  return (
    <Button
      variant="default"
      size="xs"
      leftSection={<IconColumns3 size={14} aria-hidden />}
      onClick={onClick}
      data-testid="columns"
      {...rest}
    >
      {t("rows.columns")}
    </Button>
  );
}

/** How high rows are, of all tables. */
export function DensityChoice() {
  const { t } = useTranslation();
  const [density, setDensity] = useDensity();
  return (
    <div>
      <span className={css["optionsHead"]}>{t("rows.density")}</span>
      <SegmentedControl
        size="xs"
        fullWidth
        value={density}
        onChange={(value) => setDensity(value as Density)}
        data={DENSITIES.map((value) => ({ value, label: t(`rows.${value}`) }))}
        aria-label={t("rows.density")}
      />
    </div>
  );
}
