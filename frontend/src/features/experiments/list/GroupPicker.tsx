import { Button, Popover, TextInput } from "@mantine/core";
import { IconStack2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { experimentColumns } from "../../../api/queries";
import filterCss from "../../../components/tables/filters.module.css";
import { named } from "./ColumnPicker";
import css from "./table.module.css";

const SHOWN = 60;
const FIRST = ["project", "owner", "state", "config.search.method", "slots", "priority"];

/** By what the table is grouped: any key of the document, label or hyperparameter. */
export function GroupPicker({
  by,
  project,
  onChange,
}: {
  by: string | undefined;
  project: string | undefined;
  onChange: (by: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [text, setText] = useState("");
  const found = useQuery({ ...experimentColumns(project), enabled: opened }).data;
  const keys = [...FIRST, ...(found?.items ?? []).map(({ column }) => column)];
  const wanted = text.trim().toLowerCase();
  const offered = [...new Set(keys)].filter(
    (id) => !id.startsWith("metric.") && `${id} ${named(t, id)}`.toLowerCase().includes(wanted),
  );
  const choose = (next: string | undefined): void => {
    setOpened(false);
    setText("");
    onChange(next);
  };
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-start" withinPortal={false} shadow="md" trapFocus>
      <Popover.Target>
        <Button
          variant="default"
          size="xs"
          leftSection={<IconStack2 size={14} aria-hidden />}
          className={filterCss["filterButton"]}
          data-active={by !== undefined || undefined}
          onClick={() => setOpened(!opened)}
          data-testid="group-by"
        >
          {by === undefined ? t("table.group.by") : t("table.group.byKey", { key: named(t, by) })}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={css["picker"]} data-testid="group-picker">
          <TextInput
            aria-label={t("table.group.find")}
            placeholder={t("table.group.find")}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            data-autofocus
          />
          <ul className={css["list"]}>
            {by === undefined ? null : (
              <li>
                <button type="button" data-add onClick={() => choose(undefined)}>
                  {t("table.group.none")}
                </button>
              </li>
            )}
            {offered.slice(0, SHOWN).map((id) => (
              <li key={id}>
                <button type="button" data-add onClick={() => choose(id)} title={id}>
                  <span>{named(t, id)}</span>
                </button>
              </li>
            ))}
            {offered.length === 0 ? <li className="dim">{t("table.columns.none")}</li> : null}
          </ul>
          {offered.length > SHOWN ? (
            <span className="dim">{t("table.columns.some", { n: offered.length - SHOWN })}</span>
          ) : null}
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
