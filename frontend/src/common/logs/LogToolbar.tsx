import {
  ActionIcon,
  Button,
  Menu,
  MultiSelect,
  SegmentedControl,
  Select,
  Switch,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { IconDownload, IconLetterCase, IconRegex, IconSearch, IconX } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import type { Schemas } from "../../api/client";
import type { LogSearch } from "../../app/search";
import { useTimeZone } from "../../components/Time";
import { useTyped } from "../../components/useTyped";
import * as format from "../../lib/format";
import { usePref } from "../../lib/prefs";
import { parseAt, stamp } from "../../lib/time";
import { isSearch, LEVELS, levelsOf, type LogSource, ranksOf, trialsOf } from "./logQuery";
import { LogValues } from "./LogValues";
import css from "./logs.module.css";
import layout from "../../components/layout.module.css";

export type LogStream = Schemas["LogStreamOut"];

interface Props {
  source: LogSource;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
  streams: LogStream[];
  ranks?: number[];
  nodes?: string[];
  rankName: (rank: number) => string;
}

const joined = (values: string[]): string | undefined => (values.length > 0 ? values.join(",") : undefined);

export function LogToolbar({
  source,
  search,
  set,
  streams,
  ranks: otherRanks = [],
  nodes: otherNodes = [],
  rankName,
}: Props) {
  const { t } = useTranslation();
  const [wrap, setWrap] = usePref("log-wrap");
  const [each, setEach] = usePref("log-each");
  const ranks = ranksOf(search);
  const known = [...new Set([...streams.map((s) => s.rank), ...otherRanks, ...ranks])].toSorted((a, b) => a - b);
  const nodes = [...new Set([...streams.map((s) => s.node_name), ...otherNodes])].toSorted();
  const levels = levelsOf(search);
  return (
    <div className={css["toolbar"]} role="toolbar" aria-label={t("logs.toolbar")}>
      <SearchBox search={search} set={set} />
      {isSearch(search) ? (
        <SegmentedControl
          aria-label={t("logs.show")}
          value={search.around ? "around" : "only"}
          onChange={(value) => set({ around: value === "around" ? true : undefined })}
          data={[
            { value: "only", label: t("logs.onlyHits") },
            { value: "around", label: t("logs.inContext") },
          ]}
        />
      ) : null}
      {source.trials === null ? null : <Trials numbers={source.trials} search={search} set={set} />}
      <MultiSelect
        aria-label={t("logs.levels")}
        placeholder={levels.length === 0 ? t("logs.everyLevel") : undefined}
        value={levels}
        onChange={(values) => set({ level: joined(values) })}
        data={LEVELS.map((level) => ({ value: level, label: t(`logs.level.${level}`) }))}
        clearable
        w={levels.length > 1 ? 260 : 170}
        data-testid="log-levels"
      />
      <MultiSelect
        aria-label={t("logs.ranks")}
        placeholder={ranks.length === 0 ? t("logs.everyRank") : undefined}
        value={ranks.map(String)}
        onChange={(values) => set({ rank: joined(values) })}
        data={known.map((rank) => ({ value: String(rank), label: rankName(rank) }))}
        clearable
        searchable={known.length > 8}
        w={170}
      />
      {nodes.length > 1 || search.node ? <Nodes known={nodes} search={search} set={set} /> : null}
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
      {source.attempts.length > 1 || search.attempt !== undefined ? (
        <Attempts numbers={source.attempts} search={search} set={set} />
      ) : null}
      <TimeBounds search={search} set={set} />
      {known.filter((rank) => rank >= 0).length > 1 ? (
        <Switch
          label={t("logs.merge")}
          title={t("logs.mergeHint")}
          checked={each !== "on"}
          onChange={(e) => setEach(e.currentTarget.checked ? null : "on")}
          data-testid="log-merge"
        />
      ) : null}
      <Switch
        label={t("logs.wrap")}
        checked={wrap === "on"}
        onChange={(e) => setWrap(e.currentTarget.checked ? "on" : null)}
      />
      {source.trials === null ? (
        <>
          <LogValues trialId={Number(source.key.split(":")[1])} search={search} />
          <Download trialId={Number(source.key.split(":")[1])} streams={streams} rankName={rankName} />
        </>
      ) : null}
    </div>
  );
}

/** Which trials of an experiment; none chosen is all. */
function Trials({ numbers, search, set }: Pick<Props, "search" | "set"> & { numbers: number[] }) {
  const { t } = useTranslation();
  const chosen = trialsOf(search);
  const known = [...new Set([...numbers, ...chosen])].toSorted((a, b) => a - b);
  return (
    <MultiSelect
      aria-label={t("logs.trials")}
      placeholder={chosen.length === 0 ? t("logs.everyTrial") : undefined}
      value={chosen.map(String)}
      onChange={(values) => set({ trial: joined(values), line: undefined })}
      data={known.map((no) => ({ value: String(no), label: t("nav.trialNo", { no }) }))}
      limit={200}
      clearable
      searchable={known.length > 8}
      w={170}
      data-testid="log-trials"
    />
  );
}

/** Which nodes; none chosen is all. */
function Nodes({ known, search, set }: Pick<Props, "search" | "set"> & { known: string[] }) {
  const { t } = useTranslation();
  return (
    <MultiSelect
      aria-label={t("logs.nodes")}
      placeholder={search.node ? undefined : t("logs.everyNode")}
      value={search.node?.split(",") ?? []}
      onChange={(values) => set({ node: joined(values) })}
      data={[...new Set([...known, ...(search.node?.split(",") ?? [])])]}
      clearable
      w={170}
    />
  );
}

/** Which attempt of the trial, or all of them. */
function Attempts({ numbers, search, set }: Pick<Props, "search" | "set"> & { numbers: number[] }) {
  const { t } = useTranslation();
  return (
    <Select
      aria-label={t("ranks.attempt")}
      w={150}
      value={search.attempt === undefined ? "all" : String(search.attempt)}
      allowDeselect={false}
      onChange={(value) => set({ attempt: value === null || value === "all" ? undefined : Number(value) })}
      data={[
        { value: "all", label: t("logs.everyAttempt") },
        ...[...new Set([...numbers, ...(search.attempt === undefined ? [] : [search.attempt])])].map((no) => ({
          value: String(no),
          label: t("ranks.attemptNo", { no }),
        })),
      ]}
    />
  );
}

/** The times between which lines are shown; a click on one removes it. */
function TimeBounds({ search, set }: Pick<Props, "search" | "set">) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const border = (at: string): string => stamp(parseAt(at) ?? 0, zone);
  return (
    <>
      {search.since ? (
        <Button
          variant="light"
          size="compact-sm"
          rightSection={<IconX size={12} />}
          onClick={() => set({ since: undefined })}
        >
          {t("logs.sinceTime", { at: border(search.since) })}
        </Button>
      ) : null}
      {search.until ? (
        <Button
          variant="light"
          size="compact-sm"
          rightSection={<IconX size={12} />}
          onClick={() => set({ until: undefined })}
        >
          {t("logs.untilTime", { at: border(search.until) })}
        </Button>
      ) : null}
    </>
  );
}

function SearchBox({ search, set }: Pick<Props, "search" | "set">) {
  const { t } = useTranslation();
  const [text, setText] = useTyped(search.q, 300, (q) => set({ q, line: undefined }));
  const option = (name: "regex" | "exact", label: string, Icon: typeof IconRegex) => (
    <Tooltip label={label}>
      <ActionIcon
        size="sm"
        variant={search[name] ? "filled" : "subtle"}
        color={search[name] ? undefined : "gray"}
        aria-label={label}
        aria-pressed={search[name] === true}
        onClick={() => set({ [name]: search[name] ? undefined : true })}
      >
        <Icon size={14} />
      </ActionIcon>
    </Tooltip>
  );
  return (
    <TextInput
      aria-label={t("logs.find")}
      placeholder={t(search.regex ? "logs.findPattern" : "logs.find")}
      leftSection={<IconSearch size={14} />}
      rightSectionWidth={58}
      rightSection={
        <span className={css["options"]}>
          {option("exact", t("logs.matchCase"), IconLetterCase)}
          {option("regex", t("logs.regex"), IconRegex)}
        </span>
      }
      maxLength={500}
      value={text}
      onChange={(e) => setText(e.currentTarget.value)}
      w={280}
      data-filter
      data-testid="log-filter"
    />
  );
}

/** The bytes as they were written, one stream at a time. */
function Download({
  trialId,
  streams,
  rankName,
}: {
  trialId: number;
  streams: LogStream[];
  rankName: (rank: number) => string;
}) {
  const { t } = useTranslation();
  const href = (s: LogStream): string => {
    const query = new URLSearchParams({ rank: String(s.rank), stream: s.stream, attempt: String(s.attempt_no) });
    return url(`/api/v1/trials/${trialId}/logs/download?${query}`);
  };
  // The launchers of several nodes are one download.
  const offered = [...new Map(streams.filter((s) => s.size_bytes > 0).map((s) => [href(s), { s, size: 0 }])).entries()];
  for (const [key, entry] of offered)
    entry.size = streams.filter((s) => href(s) === key).reduce((sum, s) => sum + s.size_bytes, 0);
  const attempts = new Set(streams.map((s) => s.attempt_no)).size;
  return (
    <Menu shadow="md" position="bottom-end">
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconDownload size={14} />}
          disabled={offered.length === 0}
          data-testid="log-download"
        >
          {t("logs.download")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown mah={360} className={layout["scrolls"]}>
        <Menu.Label>{t("logs.downloadHint")}</Menu.Label>
        {offered.map(([key, { s, size }]) => (
          <Menu.Item key={key} component="a" href={key} download>
            {attempts > 1 ? `${t("ranks.attemptNo", { no: s.attempt_no })} · ` : ""}
            {rankName(s.rank)} · {s.stream} · {format.bytes(size)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
