import type { TFunction } from "i18next";
import { memo } from "react";
import { useTranslation } from "react-i18next";

import { parseAnsi } from "../../lib/text/ansi";
import * as format from "../../lib/format";
import { seriesIndex } from "../../lib/states";
import { rankRanges } from "../../lib/series/perf";
import { stamp, type TimeZone } from "../../lib/time";
import type { LogLine } from "./logFeed";
import type { LogRow } from "./logRows";
import { occurrences } from "./logPlace";
import css from "./logs.module.css";

interface Props {
  row: LogRow;
  index: number;
  measure?: (element: Element | null) => void;
  top: number;
  zone: TimeZone;
  withTrial: boolean;
  /** Text to mark; "" marks nothing. */
  marked: string;
  /** A search found this line, among others that it did not find. */
  isHit: boolean;
  isSelected: boolean;
  onSelect: (line: LogLine) => void;
  onOpen: (line: LogLine, isOpen: boolean) => void;
}

export const rankName = (t: TFunction, rank: number, member = ""): string =>
  member || (rank < 0 ? t("logs.launcher") : t("rank.no", { rank }));

/** Where a line comes from. */
export const lineTitle = (t: TFunction, line: LogLine, withTrial: boolean): string =>
  [
    ...(withTrial ? [t("nav.trialNo", { no: line.trial_no }), t("ranks.attemptNo", { no: line.attempt_no })] : []),
    rankName(t, line.rank, line.member),
    line.node_name,
    line.stream,
    t("logs.lineNo", { no: format.count(line.no + 1) }),
  ].join(" · ");

/** One line, or one for the same of several ranks. A click selects it; what the keyboard does, the box around does for it. */
export const LogLineView = memo(function LogLineView({
  row,
  index,
  measure,
  top,
  zone,
  withTrial,
  marked,
  isHit,
  isSelected,
  onSelect,
  onOpen,
}: Props) {
  const { t } = useTranslation();
  const { line } = row;
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- the log box moves the selection by keys
    <div
      ref={measure}
      data-index={index}
      className={css["line"]}
      data-wrap={measure !== undefined || undefined}
      style={{ top }}
      data-level={line.level ?? undefined}
      data-hit={isHit || undefined}
      data-selected={isSelected || undefined}
      data-one-of={row.isOneOf || undefined}
      data-testid="log-line"
      title={lineTitle(t, line, withTrial)}
      onClick={() => onSelect(line)}
    >
      <span className={css["when"]}>{stamp(line.time_ms, zone, "time")}</span>
      {withTrial ? <span className={css["trialNo"]}>#{line.trial_no}</span> : null}
      <span
        className={css["rank"]}
        style={{ borderLeftColor: line.rank < 0 ? "var(--line-strong)" : `var(--series-${seriesIndex(line.rank)})` }}
      >
        {line.member || (line.rank < 0 ? "–" : `r${line.rank}`)}
        {line.stream === "stderr" ? <small> err</small> : null}
      </span>
      <span className={css["msg"]}>
        {row.same.length > 1 ? <Same row={row} onOpen={onOpen} /> : null}
        {parseAnsi(line.text).map((span, i) => (
          // oxlint-disable-next-line react/no-array-index-key -- spans of one immutable line
          <span key={i} className={span.className || undefined}>
            <Marked text={span.text} marked={marked} />
          </span>
        ))}
        {line.cut ? " …" : ""}
      </span>
    </div>
  );
});

/** How many ranks wrote the line; shows each of them. */
function Same({ row, onOpen }: { row: LogRow; onOpen: Props["onOpen"] }) {
  const { t } = useTranslation();
  const label = t("logs.sameOf", { count: row.same.length, ranks: rankRanges(row.same.map((one) => one.rank)) });
  return (
    <button
      type="button"
      tabIndex={-1} // the log box opens the selected line by keys
      className={css["same"]}
      aria-expanded={row.isOpen}
      aria-label={label}
      title={label}
      onClick={(event) => {
        event.stopPropagation();
        onOpen(row.line, !row.isOpen);
      }}
      data-testid="log-same"
    >
      {t("logs.same", { count: row.same.length })}
    </button>
  );
}

function Marked({ text, marked }: { text: string; marked: string }) {
  const found = occurrences(text, marked);
  if (found.length === 0) return text;
  return (
    <>
      {found.map(([start, end], i) => (
        // oxlint-disable-next-line react/no-array-index-key -- places of one immutable line
        <span key={i}>
          {text.slice(found[i - 1]?.[1] ?? 0, start)}
          <mark>{text.slice(start, end)}</mark>
        </span>
      ))}
      {text.slice(found.at(-1)?.[1] ?? 0)}
    </>
  );
}
