import { ActionIcon, Button, CopyButton, Popover, TextInput, Tooltip } from "@mantine/core";
import {
  IconChevronDown,
  IconChevronUp,
  IconKeyboard,
  IconPlayerPause,
  IconPlayerPlay,
  IconX,
} from "@tabler/icons-react";
import { type FormEvent, memo, useState } from "react";
import { useTranslation } from "react-i18next";

import type { LogSearch } from "../../app/search";
import { LinkButton } from "../../components/LinkButton";
import { useTimeZone } from "../../components/Time";
import * as format from "../../lib/format";
import { serverNow } from "../../lib/time";
import { lineKey, type LogFeed, type LogLine, type LogStart, MAX_LINES } from "./logFeed";
import { parsePlace } from "./logPlace";
import type { LogStream } from "./LogToolbar";
import { rankName } from "./LogLineView";
import { ranksOf } from "./logQuery";
import css from "./logs.module.css";

/** `part`: another part than the end of a log to which nothing more comes. */
export type LogDoing = "following" | "paused" | "part" | "complete" | "stale";

interface Props {
  feed: LogFeed;
  /** Lines that have no row of their own: another rank's same line stands for them. */
  numMerged: number;
  /** Lines are of several trials. */
  withTrial: boolean;
  /** What the search has found; null: nothing is searched for. */
  hits: LogFeed | null;
  /** Which of the hits is selected, from 1; 0: none. */
  hitNo: number;
  doing: LogDoing;
  selected: LogLine | undefined;
  about: string;
  streams: LogStream[];
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
  onStep: (by: 1 | -1) => void;
  onJump: (start: LogStart) => void;
  onFollow: () => void;
  onPause: () => void;
}

/** What is shown of the log, what was searched, and ways to other places. */
export function LogBar({
  feed,
  numMerged,
  withTrial,
  hits,
  hitNo,
  doing,
  selected,
  about,
  streams,
  search,
  set,
  onStep,
  onJump,
  onFollow,
  onPause,
}: Props) {
  const { t } = useTranslation();
  return (
    <>
      <div className={css["logBar"]}>
        {doing === "following" || doing === "paused" ? (
          <Button
            size="compact-sm"
            variant="default"
            leftSection={doing === "following" ? <IconPlayerPause size={14} /> : <IconPlayerPlay size={14} />}
            onClick={doing === "following" ? onPause : onFollow}
            data-testid="log-pause"
          >
            {t(doing === "following" ? "logs.pause" : "logs.follow")}
          </Button>
        ) : null}
        <span className={css["doing"]} data-doing={doing} data-testid="log-doing">
          {t(`logs.${doing}`)}
        </span>
        <span>
          {t("logs.count", {
            shown: format.count(feed.lines.length),
            all: format.count(Math.max(feed.numLines, feed.lines.length)),
          })}
        </span>
        {numMerged > 0 ? (
          <span data-testid="log-merged">{t("logs.merged", { count: numMerged, n: format.count(numMerged) })}</span>
        ) : null}
        {feed.dropped > 0 ? <span>{t("logs.bounded", { n: format.count(MAX_LINES) })}</span> : null}
        <GoTo streams={streams} search={search} selected={selected} onJump={onJump} />
        {hits ? <Hits hits={hits} hitNo={hitNo} onStep={onStep} /> : null}
        <KeysHelp />
      </div>
      {selected ? (
        <div className={css["logBar"]} data-testid="log-selected">
          <strong>{about}</strong>
          {withTrial ? (
            <LinkButton
              size="compact-sm"
              variant="default"
              to="/trials/$trialId"
              params={{ trialId: String(selected.trial_id) }}
              search={{ tab: "logs", line: lineKey(selected) }}
              data-testid="log-open-trial"
            >
              {t("logs.openTrial")}
            </LinkButton>
          ) : null}
          <CopyButton value={window.location.href}>
            {({ copied, copy }) => (
              <Button size="compact-sm" variant="default" onClick={copy}>
                {t(copied ? "logs.copied" : "logs.copyLink")}
              </Button>
            )}
          </CopyButton>
          <CopyButton value={selected.text}>
            {({ copied, copy }) => (
              <Button size="compact-sm" variant="default" onClick={copy}>
                {t(copied ? "logs.copied" : "logs.copyText")}
              </Button>
            )}
          </CopyButton>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => set({ since: new Date(selected.time_ms).toISOString() })}
          >
            {t("logs.fromHere")}
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => set({ until: new Date(selected.time_ms + 1).toISOString() })}
          >
            {t("logs.untilHere")}
          </Button>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-label={t("logs.deselect")}
            onClick={() => set({ line: undefined })}
          >
            <IconX size={14} />
          </ActionIcon>
        </div>
      ) : null}
    </>
  );
}

const KeysHelp = memo(function KeysHelp() {
  const { t } = useTranslation();
  return (
    <Tooltip label={t("logs.keys")} multiline maw={360} events={{ hover: true, focus: true, touch: true }}>
      <ActionIcon className={css["keysHelp"]} size="sm" variant="subtle" color="gray" aria-label={t("logs.keysTitle")}>
        <IconKeyboard size={16} />
      </ActionIcon>
    </Tooltip>
  );
});

function Hits({ hits, hitNo, onStep }: Pick<Props, "hitNo" | "onStep"> & { hits: LogFeed }) {
  const { t } = useTranslation();
  if (!hits.loaded) return <span>{t("logs.searching")}</span>;
  const count = hits.lines.length;
  const searched = hits.searched;
  const isAll = !hits.hasOlder;
  return (
    <span className={css["hits"]} data-testid="log-hits">
      <ActionIcon
        size="sm"
        variant="default"
        aria-label={t("logs.previousHit")}
        disabled={count === 0 || hitNo === 1}
        onClick={() => onStep(-1)}
      >
        <IconChevronUp size={14} />
      </ActionIcon>
      <ActionIcon
        size="sm"
        variant="default"
        aria-label={t("logs.nextHit")}
        disabled={count === 0 || hitNo === count}
        onClick={() => onStep(1)}
      >
        <IconChevronDown size={14} />
      </ActionIcon>
      <span role="status">
        {hitNo > 0
          ? t("logs.hitOf", { no: format.count(hitNo), count, n: format.count(count) })
          : t("logs.hits", { count, n: format.count(count) })}
        {isAll || !searched
          ? ` ${t("logs.inAll")}`
          : ` ${t("logs.inSearched", { n: format.count(searched.numLines), all: format.count(searched.numLines + searched.leftLines) })}`}
      </span>
      {isAll ? null : (
        <Button
          size="compact-sm"
          variant="default"
          loading={hits.searching || hits.loadingOlder}
          onClick={() => void (hits.searchStopped ? hits.searchOn() : hits.loadOlder())}
          data-testid="log-search-on"
        >
          {t("logs.searchOn")}
        </Button>
      )}
    </span>
  );
}

type GoToProps = Pick<Props, "streams" | "search" | "selected" | "onJump">;

/** Memoized, like the help: what is around it changes with every page of lines. */
const GoTo = memo(function GoTo({ streams, search, selected, onJump }: GoToProps) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [isWrong, setWrong] = useState(false);
  // A number is of one stream: that of the selected line, else the longest of those shown.
  const ranks = ranksOf(search);
  const shown = streams.filter(
    (s) =>
      (ranks.length === 0 || ranks.includes(s.rank)) &&
      (!search.stream || s.stream === search.stream) &&
      (search.attempt === undefined || s.attempt_no === search.attempt),
  );
  const stream =
    streams.find((s) => s.stream_id === selected?.stream_id) ?? shown.toSorted((a, b) => b.num_lines - a.num_lines)[0];
  const name = stream ? `${rankName(t, stream.rank, stream.member)} ${stream.stream}` : "";
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const place = parsePlace(text, zone, selected?.time_ms ?? serverNow());
    if (!place || ("no" in place && (!stream || place.no >= stream.num_lines))) {
      setWrong(true);
      return;
    }
    setOpen(false);
    onJump("no" in place ? { line: `${stream?.stream_id}:${place.no}` } : place);
  };
  return (
    <Popover opened={open} onChange={setOpen} trapFocus withArrow shadow="md" position="bottom-start">
      <Popover.Target>
        <Button size="compact-sm" variant="default" onClick={() => setOpen(!open)} data-testid="log-go-to">
          {t("logs.goTo")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={submit} className={css["goTo"]}>
          <TextInput
            label={t("logs.goToLabel")}
            description={stream ? t("logs.goToHint", { stream: name, n: format.count(stream.num_lines) }) : undefined}
            placeholder="1200 · 50% · 14:05"
            value={text}
            error={isWrong ? t("logs.goToWrong") : undefined}
            onChange={(e) => {
              setText(e.currentTarget.value);
              setWrong(false);
            }}
            data-testid="log-place"
          />
          <div className={css["options"]}>
            <Button size="compact-sm" type="submit">
              {t("logs.go")}
            </Button>
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => {
                setOpen(false);
                onJump({ from: "head" });
              }}
            >
              {t("logs.toStart")}
            </Button>
          </div>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
});
