import { Button, Popover, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { experiments } from "../../api/queries";
import { ErrorNotice } from "../../components/QueryView";
import { MAX_TRIALS } from "./compareData";
import css from "./compare.module.css";

const SHOWN = 20;

/** The newest experiments by name; of a search its best trial. */
export function AddTrial({ chosen, onAdd }: { chosen: number[]; onAdd: (id: number) => void }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(chosen.length === 0);
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text, 200);
  const query = useInfiniteQuery({ ...experiments({ q: q || undefined }, SHOWN), enabled: opened });
  const items = (query.data?.pages[0]?.items ?? []).flatMap((item) => {
    const id = item.only_trial_id ?? item.best_trial_id;
    return id === null || chosen.includes(id) ? [] : [{ id, item }];
  });
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" width={340} shadow="md">
      <Popover.Target>
        <Button
          leftSection={<IconPlus size={14} />}
          disabled={chosen.length >= MAX_TRIALS}
          onClick={() => setOpened(!opened)}
          data-testid="add-trial"
        >
          {t("compare.add")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <TextInput
          aria-label={t("compare.addHint")}
          placeholder={t("compare.addHint")}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
        />
        {query.error ? <ErrorNotice error={query.error} onRetry={query.refetch} /> : null}
        {query.data && items.length === 0 ? (
          <p className="dim">{t(q === "" ? "compare.addNothing" : "compare.addNone")}</p>
        ) : null}
        <ul className={css["found"]}>
          {items.map(({ id, item }) => (
            <li key={id}>
              <button type="button" onClick={() => onAdd(id)}>
                <span>{item.name}</span>
                <span className="dim num">
                  {item.only_trial_id === null ? `${t("compare.bestOfSearch")} ` : ""}#{item.id}
                </span>
              </button>
            </li>
          ))}
        </ul>
      </Popover.Dropdown>
    </Popover>
  );
}
