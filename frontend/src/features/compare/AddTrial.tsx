import { Button, Popover, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { type Experiment, experiments } from "../../api/queries";
import { ErrorNotice } from "../../components/QueryView";
import { MAX_GROUPED } from "./compareData";
import css from "./compare.module.css";

const SHOWN = 20;
const PAGE = 200;

/** Ids of the trials of a search, the best first, as many as still have room. */
async function trialsOf(item: Experiment, room: number): Promise<number[]> {
  const ids: number[] = [];
  let cursor: string | undefined;
  do {
    // oxlint-disable-next-line no-await-in-loop -- a page says where the next one begins
    const page = await unwrap(
      client.GET("/api/v1/experiments/{experiment_id}/trials", {
        params: {
          path: { experiment_id: item.id },
          query: { sort: item.metric_goal === "max" ? "-metric" : "metric", limit: Math.min(PAGE, room), cursor },
        },
      }),
    );
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && ids.length < room);
  return ids.slice(0, room);
}

/** The newest experiments by name; of a search its best trial, or all of them. */
export function AddTrial({ chosen, onAdd }: { chosen: number[]; onAdd: (ids: number[]) => void }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text, 200);
  const query = useInfiniteQuery({ ...experiments({ q: q || undefined }, SHOWN), enabled: opened });
  const room = MAX_GROUPED - chosen.length;
  const addAll = useMutation({
    mutationFn: (item: Experiment) => trialsOf(item, room),
    onSuccess: (ids) => onAdd(ids.filter((id) => !chosen.includes(id))),
  });
  const items = (query.data?.pages[0]?.items ?? []).flatMap((item) => {
    const id = item.only_trial_id ?? item.best_trial_id;
    return id === null || (item.only_trial_id !== null && chosen.includes(id)) ? [] : [{ id, item }];
  });
  const error = query.error ?? addAll.error;
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" width={380} shadow="md" trapFocus>
      <Popover.Target>
        <Button
          leftSection={<IconPlus size={14} />}
          disabled={room <= 0}
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
          data-autofocus
        />
        {error ? <ErrorNotice error={error} onRetry={query.refetch} /> : null}
        {query.data && items.length === 0 ? (
          <p className="dim">{t(q === "" ? "compare.addNothing" : "compare.addNone")}</p>
        ) : null}
        <ul className={css["found"]}>
          {items.map(({ id, item }) => (
            <li key={item.id}>
              <button type="button" disabled={chosen.includes(id)} onClick={() => onAdd([id])}>
                <span>{item.name}</span>
                <span className="dim num">
                  {item.only_trial_id === null ? `${t("compare.bestOfSearch")} ` : ""}#{item.id}
                </span>
              </button>
              {item.only_trial_id === null && item.num_trials > 1 ? (
                <button type="button" disabled={addAll.isPending} onClick={() => addAll.mutate(item)}>
                  {t("compare.addAll", { count: Math.min(item.num_trials, room) })}
                </button>
              ) : null}
            </li>
          ))}
        </ul>
      </Popover.Dropdown>
    </Popover>
  );
}
