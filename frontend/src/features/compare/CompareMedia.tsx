import { Button } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { mediaOverview } from "../../api/queries";
import { MediaBar } from "../../common/media/MediaBar";
import { MediaCard } from "../../common/media/MediaCard";
import { named, stepAt, stepsOf, together } from "../../common/media/mediaData";
import css from "../../common/media/media.module.css";
import { Empty, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { isTerminal } from "../../lib/states";
import type { Compared } from "./TrialChips";

const ROWS = 8;

/** Media of one name side by side: each trial's at the chosen step, or its last one before. */
export function CompareMedia({ compared }: { compared: Compared[] }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/compare" });
  const navigate = useNavigate({ from: "/compare" });
  const [text, setText] = useState("");
  const [most, setMost] = useState(ROWS);
  const shown = compared.filter((one) => !one.hidden);
  const queries = useQueries({ queries: shown.map(({ id, trial }) => mediaOverview(id, !isTerminal(trial.state))) });
  const failed = queries.find((query) => query.error !== null);
  if (failed?.error) return <ErrorNotice error={failed.error} onRetry={failed.refetch} />;
  if (queries.some((query) => query.isPending)) return <Skeleton rows={8} />;
  const all = queries.map((query) => query.data?.series ?? []);
  const steps = stepsOf(all.flat());
  if (steps.length === 0) return <Empty title={t("media.noneOfThese")}>{t("media.noneHint")}</Empty>;
  const ranks = [...new Set(all.flat().flatMap((one) => one.ranks))].toSorted((a, b) => a - b);
  const step = stepAt(steps, search.step ?? steps.at(-1) ?? 0) ?? steps[0] ?? 0;
  const rank = ranks.find((one) => one === search.rank);
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const rows = named(together(all), text);
  return (
    <>
      <MediaBar
        steps={steps}
        at={steps.indexOf(step)}
        onStep={(to) => set({ step: to ?? undefined })}
        ranks={ranks}
        rank={rank}
        onRank={(to) => set({ rank: to })}
        text={text}
        onText={setText}
      />
      {rows.length === 0 ? <Empty title={t("media.noMatch")} /> : null}
      {rows.slice(0, most).map(({ name, kind }) => (
        <section key={`${name}\n${kind}`} className={css["row"]} aria-label={name} data-testid="media-row">
          <h2>{name}</h2>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
          <div className={css["side"]} tabIndex={0} role="group" aria-label={name}>
            {shown.map((one, no) => {
              const series = all[no]?.find((other) => other.name === name && other.kind === kind);
              const title = <h3>{one.name}</h3>;
              return series ? (
                <MediaCard key={one.id} trialId={one.id} series={series} step={step} rank={rank} title={title} />
              ) : (
                <article key={one.id} className={css["card"]}>
                  <header>{title}</header>
                  <p className="dim">{t("media.notLogged")}</p>
                </article>
              );
            })}
          </div>
        </section>
      ))}
      {rows.length > most ? (
        <Button variant="default" size="xs" onClick={() => setMost(most + ROWS)}>
          {t("media.more", { count: rows.length - most })}
        </Button>
      ) : null}
    </>
  );
}
