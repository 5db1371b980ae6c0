import { Button, MultiSelect, SegmentedControl, Select, Switch, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconArrowDown, IconDownload, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import type { TrialDetail } from "../../api/queries";
import { Empty, Notice, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { useTimeZone } from "../../components/Time";
import { parseAnsi } from "../../lib/ansi";
import * as format from "../../lib/format";
import { usePref } from "../../lib/prefs";
import { isTerminal, seriesIndex } from "../../lib/states";
import { stamp } from "../../lib/time";
import { LogFeed, type LogLine, MAX_LINES } from "./logFeed";
import css from "./trials.module.css";

const LINE_PX = 19;

export function Logs({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/trials/$trialId" });
  const navigate = useNavigate({ from: "/trials/$trialId" });
  const [wrapPref, setWrapPref] = usePref("log-wrap");
  const wrap = wrapPref === "on";
  const [text, setText] = useState(search.q ?? "");
  const [debounced] = useDebouncedValue(text, 300);
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  useEffect(() => {
    if ((search.q ?? "") !== debounced) set({ q: debounced || undefined });
    // oxlint-disable-next-line react/exhaustive-deps -- only typing moves the filter into the URL
  }, [debounced]);

  const streams = useQuery({
    queryKey: ["trial", trial.id, "log-streams"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}/logs/streams", { params: { path: { trial_id: trial.id } }, signal })),
  }).data?.items;
  const known = [...new Set((streams ?? []).map((s) => s.rank))].toSorted((a, b) => a - b);
  const ranks = useMemo(
    () => (search.rank && search.rank !== "all" ? search.rank.split(",").map(Number).filter(Number.isInteger) : []),
    [search.rank],
  );
  const rankName = (rank: number): string => (rank < 0 ? t("logs.launcher") : t("rank.no", { rank }));
  const downloadQuery = new URLSearchParams();
  for (const rank of ranks) downloadQuery.append("rank", String(rank));
  if (search.stream) downloadQuery.set("stream", search.stream);
  if (search.attempt !== undefined) downloadQuery.set("attempt", String(search.attempt));

  return (
    <>
      <div className={css["toolbar"]} role="toolbar" aria-label={t("logs.toolbar")}>
        <MultiSelect
          aria-label={t("logs.ranks")}
          placeholder={ranks.length === 0 ? t("logs.everyRank") : undefined}
          value={ranks.map(String)}
          onChange={(values) => set({ rank: values.length > 0 ? values.join(",") : undefined })}
          data={[...new Set([...known, ...ranks])].map((rank) => ({ value: String(rank), label: rankName(rank) }))}
          clearable
          w={220}
        />
        <SegmentedControl
          aria-label={t("logs.stream")}
          value={search.stream ?? "all"}
          onChange={(value) => set({ stream: value === "all" ? undefined : value })}
          data={[
            { value: "all", label: t("logs.both") },
            { value: "stdout", label: "stdout" },
            { value: "stderr", label: "stderr" },
          ]}
        />
        {trial.attempts.length > 1 ? (
          <Select
            aria-label={t("ranks.attempt")}
            w={150}
            value={search.attempt === undefined ? "all" : String(search.attempt)}
            allowDeselect={false}
            onChange={(value) => set({ attempt: value === null || value === "all" ? undefined : Number(value) })}
            data={[{ value: "all", label: t("logs.everyAttempt") }, ...trial.attempts.map((a) => ({ value: String(a.no), label: t("ranks.attemptNo", { no: a.no }) }))]}
          />
        ) : null}
        <TextInput
          aria-label={t("logs.find")}
          placeholder={t("logs.find")}
          leftSection={<IconSearch size={14} />}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          w={220}
          data-testid="log-filter"
        />
        <Switch label={t("logs.wrap")} checked={wrap} onChange={(e) => setWrapPref(e.currentTarget.checked ? "on" : null)} />
        <Button variant="default" component="a" href={`/api/v1/trials/${trial.id}/logs/download?${downloadQuery}`} download leftSection={<IconDownload size={14} />}>
          {t("logs.download")}
        </Button>
      </div>
      <LogView key={JSON.stringify([search.rank, search.stream, search.attempt, search.q, wrap])} trial={trial} wrap={wrap} ranks={ranks} stream={search.stream} attempt={search.attempt} q={search.q} rankName={rankName} onClear={() => { setText(""); set({ rank: undefined, stream: undefined, attempt: undefined, q: undefined }); }} />
    </>
  );
}

interface ViewProps {
  trial: TrialDetail;
  ranks: number[];
  stream?: string;
  attempt?: number;
  q?: string;
  /** Long lines are broken; otherwise the box scrolls sideways. */
  wrap: boolean;
  rankName: (rank: number) => string;
  onClear: () => void;
}

function LogView({ trial, ranks, stream, attempt, q, wrap, rankName, onClear }: ViewProps) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  // One feed per mount: another filter is another mount (see `key` above).
  const [feed, setFeed] = useState<LogFeed | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const [seen, setSeen] = useState(0);

  useEffect(() => {
    const next = new LogFeed((ask, signal) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/logs", {
          params: {
            path: { trial_id: trial.id },
            query: { rank: ranks, stream: stream as never, attempt, q, ...ask },
          },
          signal,
        }),
      ),
    );
    setFeed(next);
    void next.poll();
    const hint = coalesce(() => next.poll(), 250);
    const endLogs = live.subscribe(`trial:${trial.id}:logs`, hint);
    return () => {
      endLogs();
      next.stop();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- filters change the key, not the props
  }, [trial.id]);
  useSyncExternalStore(feed?.subscribe ?? noSubscription, feed?.getVersion ?? zero);
  const lines = feed?.lines ?? EMPTY;

  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
    getItemKey: (index) => lineKey(lines[index], index),
  });
  const total = lines.length;
  const height = virtual.getTotalSize(); // of wrapped lines it is known only once they were drawn
  useEffect(() => {
    if (!following || total === 0) return;
    if (box.current) box.current.scrollTop = height;
    setSeen(total);
  }, [following, total, height]);

  const onScroll = (): void => {
    const element = box.current;
    if (!element || !feed) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2;
    if (atEnd !== following) setFollowing(atEnd);
    if (!atEnd && following) setSeen(total);
    if (element.scrollTop < LINE_PX * 10 && feed.hasOlder && !atEnd) {
      const top = virtual.getVirtualItemForOffset(element.scrollTop)?.index ?? 0;
      void feed.loadOlder().then((added) => {
        if (added > 0 && box.current) {
          if (wrap) virtual.scrollToIndex(top + added, { align: "start" });
          else box.current.scrollTop += added * LINE_PX;
        }
        setSeen((n) => n + added);
      });
    }
  };

  if (!feed || !feed.loaded) {
    return feed?.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : <Skeleton rows={10} />;
  }
  const filtered = ranks.length > 0 || stream !== undefined || attempt !== undefined || q !== undefined;
  const fresh = Math.max(0, total - seen);
  return (
    <>
      {feed.truncated.length > 0 ? <Notice tone="warn" title={t("logs.truncated", { streams: feed.truncated.join(", ") })} /> : null}
      {feed.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : null}
      {feed.searchStopped ? (
        <Notice
          title={t("logs.searchStopped")}
          action={
            <Button size="compact-xs" variant="default" loading={feed.loadingOlder} onClick={() => void feed.loadOlder()}>
              {t("logs.searchOn")}
            </Button>
          }
        />
      ) : null}
      {total === 0 && feed.searchStopped ? null : total === 0 ? (
        <Empty
          title={t(filtered ? "logs.noMatch" : isTerminal(trial.state) ? "logs.none" : "logs.waiting")}
          action={filtered ? <Button variant="default" onClick={onClear}>{t("common.clearFilters")}</Button> : null}
        >
          {filtered || isTerminal(trial.state) ? null : trial.pending_reason || null}
        </Empty>
      ) : (
        <div className={css["logWrap"]}>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
          <div className={css["logBox"]} ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label={t("trial.tab.logs")} data-testid="log" data-num-lines={total} data-following={following} data-complete={feed.complete}>
            <div style={{ height, position: "relative", minWidth: "100%" }}>
              {virtual.getVirtualItems().map((item) => {
                const line = lines[item.index];
                return line ? <Line key={item.key} index={item.index} measure={wrap ? virtual.measureElement : undefined} line={line} top={item.start} time={stamp(line.time_ms, zone, "time")} rank={line.rank < 0 ? "–" : `r${line.rank}`} title={`${rankName(line.rank)} · ${line.node_name} · ${line.stream} · #${line.no}`} /> : null;
              })}
            </div>
          </div>
          {!following && (fresh > 0 || !feed.complete) ? (
            <Button className={css["jump"]} leftSection={<IconArrowDown size={14} />} onClick={() => setFollowing(true)} data-testid="log-follow">
              {fresh > 0 ? t("logs.newLines", { count: fresh }) : t("logs.follow")}
            </Button>
          ) : null}
        </div>
      )}
      <div className={css["logState"]}>
        <span>{t("logs.count", { shown: format.count(total), all: format.count(Math.max(feed.numLines, total)) })}</span>
        <span>{t(feed.complete ? "logs.complete" : following ? "logs.following" : "logs.paused")}</span>
        {feed.dropped > 0 ? <span>{t("logs.bounded", { n: format.count(MAX_LINES) })}</span> : null}
      </div>
    </>
  );
}

const EMPTY: LogLine[] = [];
const lineKey = (line: LogLine | undefined, index: number): string => (line ? `${line.stream_id}:${line.no}` : String(index));
const noSubscription = (): (() => void) => () => {};
const zero = (): number => 0;

function Line({ line, index, measure, top, time, rank, title }: { line: LogLine; index: number; measure?: (element: Element | null) => void; top: number; time: string; rank: string; title: string }) {
  return (
    <div ref={measure} data-index={index} className={css["line"]} data-wrap={measure !== undefined || undefined} style={{ top }} data-stream={line.stream} data-testid="log-line" title={title}>
      <span className={css["when"]}>{time}</span>
      <span className={css["rank"]} style={{ borderLeftColor: line.rank < 0 ? "var(--line-strong)" : `var(--series-${seriesIndex(line.rank)})` }}>
        {rank}
      </span>
      <span className={css["msg"]}>
        {parseAnsi(line.text).map((span, i) =>
          span.className ? (
            // oxlint-disable-next-line react/no-array-index-key -- spans of one immutable line
            <span key={i} className={span.className}>
              {span.text}
            </span>
          ) : (
            span.text
          ),
        )}
        {line.cut ? " …" : ""}
      </span>
    </div>
  );
}
