import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { memo, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import type { LogSearch } from "../../app/search";
import { Empty, Notice, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { sentence } from "../../components/text/Message";
import { useTimeZone } from "../../components/Time";
import { useStable } from "../../components/useStable";
import * as format from "../../lib/format";
import { stamp } from "../../lib/time";
import { type LogActions, logActions, onLogKey } from "./logActions";
import { LogBar, type LogDoing } from "./LogBar";
import { type LogFeed, SEARCH_MS } from "./logFeed";
import { LogLineView, lineTitle } from "./LogLineView";
import { isSearch, levelsOf, type LogSource, ranksOf, trialsOf } from "./logQuery";
import type { LogStream } from "./LogToolbar";
import css from "./logs.module.css";
import { useFillHeight } from "./useFillHeight";
import { type LogRows, useLogRows } from "./useLogRows";
import { type LogScroll, useLineWindow, useLogScroll } from "./useLogScroll";

interface Props {
  source: LogSource;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
  streams: LogStream[];
  feed: LogFeed | null;
  /** Where the search finds something, when the log is shown whole. */
  hits: LogFeed | null;
  onClear: () => void;
}

export function LogView({ source, search, set, streams, feed, hits, onClear }: Props) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const [pane, setPane] = useState<HTMLDivElement | null>(null);
  const log = useLogRows(feed, hits, search.line);
  const scroll = useLogScroll(feed, log, search.line);
  const act = useStable(logActions(feed, log, scroll, set)); // lines that stay are not drawn again
  if (!feed?.loaded) {
    return feed?.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : <Skeleton rows={10} />;
  }
  const withTrial = source.trials !== null;
  return (
    <div ref={setPane} className={css["pane"]}>
      {feed.truncated.length > 0 ? (
        <Notice tone="warn" title={t("logs.truncated", { streams: feed.truncated.join(", ") })} />
      ) : null}
      {feed.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : null}
      {feed.left ? <LeftOut left={feed.left} onGoOn={(until) => set({ until, line: undefined })} /> : null}
      {hits?.error ? <ErrorNotice error={hits.error} onRetry={() => hits.poll()} /> : null}
      <LogBar
        feed={feed}
        numMerged={log.numHidden}
        withTrial={withTrial}
        hits={isSearch(search) ? (hits ?? feed) : null}
        hitNo={log.hitAt + 1}
        doing={doingOf(feed, scroll.following, source.isOver)}
        selected={log.selected}
        about={log.selected ? `${lineTitle(t, log.selected, withTrial)} · ${stamp(log.selected.time_ms, zone)}` : ""}
        streams={streams}
        search={search}
        set={set}
        onStep={act.step}
        onJump={act.jump}
        onFollow={act.follow}
        onPause={act.pause}
      />
      {log.numLines > 0 ? (
        <LogBox {...{ feed, source, search, log, scroll, act, pane }} />
      ) : feed.searching ? (
        <Skeleton rows={10} />
      ) : feed.searchStopped ? (
        <Empty title={t("logs.noMatchSoFar")}>{t("logs.noMatchSoFarHint", { seconds: SEARCH_MS / 1000 })}</Empty>
      ) : (
        <NoLines feed={feed} source={source} isFiltered={isFiltered(source, search, hits)} onClear={onClear} />
      )}
      <p className="srOnly" id="log-keys">
        {t("logs.keys")}
      </p>
      {levelsOf(search).length > 0 ? <p className={css["levelRule"]}>{t("logs.levelRule")}</p> : null}
    </div>
  );
}

function doingOf(feed: LogFeed, following: boolean, isOver: boolean): LogDoing {
  if (feed.error) return "stale";
  if (feed.complete) return "complete";
  if (following) return "following";
  return isOver ? "part" : "paused";
}

/** Something was asked for that may be why there are no lines. */
const isFiltered = (source: LogSource, search: LogSearch, hits: LogFeed | null): boolean =>
  ranksOf(search).length > 0 ||
  (source.trials !== null && trialsOf(search).length > 0) ||
  Boolean(search.node ?? search.stream ?? search.attempt ?? search.since ?? search.until) ||
  (hits === null && isSearch(search));

interface BoxProps {
  feed: LogFeed;
  source: LogSource;
  search: LogSearch;
  log: LogRows;
  scroll: LogScroll;
  act: LogActions;
  /** What ends with the window: the box and all that belongs to it. */
  pane: HTMLElement | null;
}

/** The lines that are in view, in a box that scrolls over all. Scrolling renders the box, and nothing around it. */
function LogBox({ feed, source, search, log, scroll, act, pane }: BoxProps) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const virtual = useLineWindow(scroll, log, search.line);
  const [wrap, setWrap] = useState<HTMLDivElement | null>(null);
  const height = useFillHeight(pane, wrap);
  const items = virtual.getVirtualItems();
  const rankChars = useMemo(() => log.rows.reduce((n, { line }) => Math.max(n, line.member.length), 7), [log.rows]);
  const jumpText =
    scroll.numFresh > 0 && scroll.isLive
      ? t("logs.newLines", { count: scroll.numFresh })
      : t(source.isOver ? "logs.toEnd" : "logs.follow");
  return (
    <div className={css["logWrap"]} ref={setWrap}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex, jsx-a11y/no-noninteractive-element-interactions -- a scrolling region must be reachable, and its keys are its own */}
      <div
        className={css["logBox"]}
        style={height === null ? undefined : { height }}
        ref={scroll.box}
        onScroll={scroll.onScroll}
        onKeyDown={(event) => onLogKey(event, act, log, scroll, search)}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t("trial.tab.logs")}
        aria-describedby="log-keys"
        data-testid="log"
        data-keys="log"
        data-num-lines={log.numLines}
        data-num-rows={log.rows.length}
        data-following={scroll.following}
        data-complete={feed.complete}
      >
        <div
          className={css["allLines"]}
          style={{ height: virtual.getTotalSize(), "--rank-ch": rankChars } as React.CSSProperties}
        >
          {items.map((item) => {
            const row = log.rows[item.index];
            if (!row) return null;
            return (
              <LogLineView
                // The element of a line that left the box shows one that came; measured ones keep their line.
                key={scroll.wrap ? item.key : item.index % items.length}
                index={item.index}
                measure={scroll.wrap ? virtual.measureElement : undefined}
                row={row}
                top={item.start}
                zone={zone}
                withTrial={source.trials !== null}
                marked={search.q && !search.regex ? search.q : ""}
                isHit={row.same.some(log.isHit)}
                isSelected={item.index === log.at}
                onSelect={act.select}
                onOpen={act.open}
              />
            );
          })}
        </div>
      </div>
      {!scroll.wantsToFollow && (scroll.numFresh > 0 || !feed.atEnd || !feed.complete) ? (
        <Jump text={jumpText} onFollow={act.follow} />
      ) : null}
    </div>
  );
}

const Jump = memo(function Jump({ text, onFollow }: { text: string; onFollow: () => void }) {
  return (
    <Button
      className={css["jump"]}
      leftSection={<IconArrowDown size={14} />}
      onClick={onFollow}
      data-testid="log-follow"
    >
      {text}
    </Button>
  );
});

interface NoLinesProps {
  feed: LogFeed;
  source: LogSource;
  isFiltered: boolean;
  onClear: () => void;
}

/** Why there are none, and what can be done about it. */
function NoLines({ feed, source, isFiltered, onClear }: NoLinesProps) {
  const { t } = useTranslation();
  if (isFiltered)
    return (
      <Empty
        title={t("logs.noMatch")}
        action={
          <Button variant="default" onClick={onClear}>
            {t("common.clearFilters")}
          </Button>
        }
      >
        {feed.numLines > 0 ? t("logs.hidden", { count: feed.numLines, n: format.count(feed.numLines) }) : null}
      </Empty>
    );
  if (source.isOver) return <Empty title={t(source.trials === null ? "logs.none" : "logs.noneOfAll")} />;
  return <Empty title={t("logs.waiting")}>{sentence(source.waitingFor) || null}</Empty>;
}

/** Of too many streams some are not read: until when what is shown is all there is, and how to go on. */
function LeftOut({ left, onGoOn }: { left: NonNullable<LogFeed["left"]>; onGoOn: (until: string) => void }) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  return (
    <Notice
      title={t("logs.left", {
        count: left.num_streams,
        n: format.count(left.num_streams),
        at: stamp(Date.parse(left.until), zone),
      })}
      action={
        <Button size="compact-xs" variant="default" onClick={() => onGoOn(left.until)} data-testid="log-go-on">
          {t("logs.goOn")}
        </Button>
      }
    />
  );
}
