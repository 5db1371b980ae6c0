import { ActionIcon, Tooltip } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { ITEMS_SHOWN, mediaAt, mediaContent, type MediaItem, type MediaSeries } from "../../api/queries";
import { Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import * as format from "../../lib/format";
import { MediaContent } from "./MediaContent";
import { stepAt } from "./mediaData";
import css from "./media.module.css";

/** The items of one name at the chosen step, or at the last one before it that has any. */
export function MediaCard({
  trialId,
  series,
  step,
  rank,
  title,
}: {
  trialId: number;
  series: MediaSeries;
  step: number;
  /** Undefined: every rank. */
  rank: number | undefined;
  title: ReactNode;
}) {
  const { t } = useTranslation();
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const [isSeen, setIsSeen] = useState(false);
  if (inViewport && !isSeen) setIsSeen(true);
  const at = stepAt(series.steps, step);
  return (
    <article ref={ref} className={css["card"]} data-kind={series.kind} data-testid="media-card">
      <header>
        {title}
        <span className="dim" data-testid="media-card-step">
          {at === null
            ? t("media.from_step", { step: format.count(series.steps[0]) })
            : t("media.step", { step: format.count(at) })}
        </span>
      </header>
      {at === null ? (
        <p className="dim">{t("media.notYet")}</p>
      ) : isSeen ? (
        <Items trialId={trialId} series={series} step={at} rank={rank} />
      ) : (
        <Skeleton />
      )}
    </article>
  );
}

interface ItemsProps {
  trialId: number;
  series: MediaSeries;
  step: number;
  rank: number | undefined;
}

function Items({ trialId, series, step, rank }: ItemsProps) {
  const { t } = useTranslation();
  const query = useQuery(mediaAt(trialId, series, step, rank));
  if (query.data === undefined)
    return query.error ? <ErrorNotice error={query.error} onRetry={query.refetch} /> : <Skeleton />;
  const { items, next } = query.data;
  if (items.length === 0) return <p className="dim">{t("media.noneOfRank")}</p>;
  return (
    <div className={css["items"]} aria-busy={query.isPlaceholderData}>
      {items
        .toSorted((a, b) => a.rank - b.rank)
        .map((item) => (
          <One key={item.id} item={item} hasRank={series.ranks.length > 1} />
        ))}
      {next === null ? null : <p className="dim">{t("media.moreItems", { n: ITEMS_SHOWN })}</p>}
    </div>
  );
}

function One({ item, hasRank }: { item: MediaItem; hasRank: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(mediaContent(item));
  const save = t("media.save", { size: format.bytes(item.size_bytes) });
  return (
    <figure className={css["item"]} data-testid="media-item">
      {query.data ? (
        <MediaContent item={item} content={query.data} />
      ) : query.error ? (
        <ErrorNotice error={query.error} onRetry={query.refetch} />
      ) : (
        <Skeleton rows={3} />
      )}
      <figcaption>
        <span className={css["caption"]}>
          {hasRank ? <b>{t("rank.no", { rank: item.rank })}</b> : null} {item.caption}
        </span>
        {query.data ? (
          <Tooltip label={save}>
            <ActionIcon
              component="a"
              href={query.data.url}
              download
              size="sm"
              variant="subtle"
              color="gray"
              aria-label={`${save}: ${item.name}`}
            >
              <IconDownload size={14} aria-hidden />
            </ActionIcon>
          </Tooltip>
        ) : null}
      </figcaption>
    </figure>
  );
}
