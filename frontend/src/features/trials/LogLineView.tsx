import { memo } from "react";

import { parseAnsi } from "../../lib/ansi";
import { seriesIndex } from "../../lib/states";
import type { LogLine } from "./logFeed";
import { occurrences } from "./logPlace";
import css from "./trials.module.css";

interface Props {
  line: LogLine;
  index: number;
  measure?: (element: Element | null) => void;
  top: number;
  time: string;
  title: string;
  withTrial: boolean;
  /** Text to mark; "" marks nothing. */
  marked: string;
  /** A search found this line, among others that it did not find. */
  isHit: boolean;
  isSelected: boolean;
  onSelect: (line: LogLine) => void;
}

/** One line. A click selects it; what the keyboard does, the box around does for it. */
export const LogLineView = memo(function LogLineView({ line, index, measure, top, time, title, withTrial, marked, isHit, isSelected, onSelect }: Props) {
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- the log box moves the selection by keys
    <div ref={measure} data-index={index} className={css["line"]} data-wrap={measure !== undefined || undefined} style={{ top }} data-level={line.level ?? undefined} data-hit={isHit || undefined} data-selected={isSelected || undefined} data-testid="log-line" title={title} onClick={() => onSelect(line)}>
      <span className={css["when"]}>{time}</span>
      {withTrial ? <span className={css["trialNo"]}>#{line.trial_no}</span> : null}
      <span className={css["rank"]} style={{ borderLeftColor: line.rank < 0 ? "var(--line-strong)" : `var(--series-${seriesIndex(line.rank)})` }}>
        {line.rank < 0 ? "–" : `r${line.rank}`}
        {line.stream === "stderr" ? <small> err</small> : null}
      </span>
      <span className={css["msg"]}>
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
