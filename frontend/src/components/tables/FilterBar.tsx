import { Button, Menu } from "@mantine/core";
import { IconAdjustmentsHorizontal, IconChevronDown, IconX } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import css from "./filters.module.css";

/** One row above a table: what is looked for, how it is narrowed, what is shown. On a phone it is folded. */
export function FilterBar({
  find,
  numActive,
  children,
}: {
  /** The search field, which is never folded. */
  find?: ReactNode;
  /** How many filters are set. */
  numActive: number;
  children: ReactNode;
}) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  return (
    <div className={css["filterBar"]} role="search" data-opened={opened || undefined}>
      {find}
      <Button
        className={css["fold"]}
        variant="default"
        size="xs"
        leftSection={<IconAdjustmentsHorizontal size={14} aria-hidden />}
        aria-expanded={opened}
        onClick={() => setOpened(!opened)}
        data-testid="fold-filters"
      >
        {numActive > 0 ? t("rows.filtersSet", { n: numActive }) : t("rows.filters")}
      </Button>
      <div className={css["folded"]}>{children}</div>
    </div>
  );
}

/** Several of a list at once; nothing chosen means all. */
export function FilterMenu<T extends string>({
  label,
  options,
  chosen,
  onChange,
  children,
  testId,
}: {
  label: string;
  options: readonly { value: T; label: ReactNode; text: string }[];
  chosen: readonly T[];
  onChange: (chosen: T[]) => void;
  /** Further entries below. */
  children?: ReactNode;
  testId?: string;
}) {
  const names = options.filter(({ value }) => chosen.includes(value)).map(({ text }) => text);
  return (
    <Menu closeOnItemClick={false} position="bottom-start">
      <Menu.Target>
        <Button
          variant="default"
          size="xs"
          rightSection={<IconChevronDown size={14} aria-hidden />}
          data-active={names.length > 0 || undefined}
          className={css["filterButton"]}
          data-testid={testId}
        >
          {names.length > 0 ? `${label}: ${names.join(", ")}` : label}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {options.map((option) => {
          const isOn = chosen.includes(option.value);
          return (
            <Menu.CheckboxItem
              key={option.value}
              checked={isOn}
              onChange={() => onChange(isOn ? chosen.filter((one) => one !== option.value) : [...chosen, option.value])}
            >
              {option.label}
            </Menu.CheckboxItem>
          );
        })}
        {children}
      </Menu.Dropdown>
    </Menu>
  );
}

/** A filter that is set, and is taken away with a click. */
export function SetFilter({
  text,
  label,
  onRemove,
  testId,
}: {
  text: string;
  label?: string;
  onRemove: () => void;
  testId?: string;
}) {
  return (
    <button
      type="button"
      className={css["chip"]}
      aria-pressed
      aria-label={label}
      title={text}
      onClick={onRemove}
      data-testid={testId}
    >
      <span>{text}</span> <IconX size={12} aria-hidden />
    </button>
  );
}
