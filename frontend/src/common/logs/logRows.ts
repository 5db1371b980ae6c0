/** Rows of a log: a line that several ranks wrote is one of them, and no rank's lines change their order. Pure. */
import type { LogLine } from "./logFeed";
import { lineKey } from "./logFeed";

/** Ranks that write the same line later than this say something of their own. */
export const SAME_WITHIN_MS = 10_000;

export interface LogRow {
  line: LogLine;
  /** All that wrote this line, in the order in which they did; one: the line stands for itself. */
  same: LogLine[];
  /** The others of `same` follow as rows of their own. */
  isOpen: boolean;
  /** It is one of those others. */
  isOneOf: boolean;
}

export interface LogRows {
  rows: LogRow[];
  /** Key of a line → its row: its own, or the one that stands for it. */
  rowOf: Map<string, number>;
  /** Lines that have no row of their own. */
  numHidden: number;
}

interface Group {
  same: LogLine[];
  writers: Set<string>;
}

const writerOf = (line: LogLine): string => `${line.trial_id} ${line.attempt_no} ${line.rank}`;

/**
 * One row for each line that ranks of one attempt have in common: the same text on the same stream, at most once of each
 * rank, at most SAME_WITHIN_MS after the first, and only where no rank's lines would change places. A line whose end has
 * not come stays alone. opened: keys of first lines whose others are shown; shown: the key of a line that must be.
 */
export function rowsOf(
  lines: readonly LogLine[],
  merge: boolean,
  opened: ReadonlySet<string>,
  shown?: string,
): LogRows {
  const groups: Group[] = [];
  const latest = new Map<string, number>();
  const lastOf = new Map<string, number>();
  for (const line of lines) {
    const writer = writerOf(line);
    const what = `${line.trial_id} ${line.attempt_no} ${line.stream} ${line.text}`;
    const at = merge && !line.partial ? latest.get(what) : undefined;
    const group = at === undefined ? undefined : groups[at];
    const joins =
      at !== undefined &&
      group !== undefined &&
      at > (lastOf.get(writer) ?? -1) &&
      !group.writers.has(writer) &&
      line.time_ms - (group.same[0]?.time_ms ?? 0) <= SAME_WITHIN_MS;
    if (joins) {
      group.same.push(line);
      group.writers.add(writer);
      lastOf.set(writer, at);
    } else {
      groups.push({ same: [line], writers: new Set([writer]) });
      lastOf.set(writer, groups.length - 1);
      if (!line.partial) latest.set(what, groups.length - 1);
    }
  }
  const rows: LogRow[] = [];
  const rowOf = new Map<string, number>();
  let numHidden = 0;
  for (const { same } of groups) {
    const [line, ...others] = same as [LogLine, ...LogLine[]];
    const isOpen =
      others.length > 0 &&
      (opened.has(lineKey(line)) || (shown !== undefined && others.some((one) => lineKey(one) === shown)));
    rowOf.set(lineKey(line), rows.length);
    rows.push({ line, same, isOpen, isOneOf: false });
    for (const one of others) {
      if (isOpen) rows.push({ line: one, same: [one], isOpen: false, isOneOf: true });
      else numHidden += 1;
      rowOf.set(lineKey(one), rows.length - 1);
    }
  }
  return { rows, rowOf, numHidden };
}
