import { Button, NativeSelect, Popover, TextInput } from "@mantine/core";
import { IconFilter } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { experimentColumns } from "../../../api/queries";
import css from "./table.module.css";

const OPERATORS = ["<", "<=", ">", ">=", "=", "!=", "is missing", "is set"];
const hasValue = (operator: string): boolean => !operator.startsWith("is ");
const FIXED = ["name", "state", "project", "owner", "priority", "slots", "best"];
/** The server takes so many. */
export const MAX_CONDITIONS = 10;

/** A condition on any column. */
export function AddCondition({ project, onAdd }: { project: string | undefined; onAdd: (condition: string) => void }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [column, setColumn] = useState("");
  const [operator, setOperator] = useState("<");
  const [value, setValue] = useState("");
  const found = useQuery({ ...experimentColumns(project), enabled: opened }).data;
  const names = [...FIXED, ...(found?.items ?? []).map((item) => item.column)];
  const isWhole = column.trim() !== "" && (!hasValue(operator) || value.trim() !== "");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!isWhole) return;
    onAdd(`${column.trim()} ${operator} ${hasValue(operator) ? value.trim() : ""}`.trim());
    setOpened(false);
    setValue("");
  };
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <Button
          variant="default"
          size="xs"
          leftSection={<IconFilter size={14} aria-hidden />}
          onClick={() => setOpened(!opened)}
          data-testid="add-condition"
        >
          {t("table.where.add")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form className={css["picker"]} onSubmit={submit} data-testid="condition-form">
          <TextInput
            label={t("table.where.column")}
            placeholder="metric.last.train/loss"
            list="condition-columns"
            value={column}
            onChange={(event) => setColumn(event.currentTarget.value)}
            data-autofocus
          />
          <datalist id="condition-columns">
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </datalist>
          <NativeSelect
            label={t("table.where.operator")}
            data={OPERATORS}
            value={operator}
            onChange={(event) => setOperator(event.currentTarget.value)}
          />
          {hasValue(operator) ? (
            <TextInput
              label={t("table.where.value")}
              value={value}
              onChange={(event) => setValue(event.currentTarget.value)}
            />
          ) : null}
          <span className="dim">{t("table.where.hint")}</span>
          <Button type="submit" disabled={!isWhole}>
            {t("table.where.apply")}
          </Button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
