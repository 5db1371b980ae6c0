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
  /** The row of a line by its key: its own, or the one that stands for it; -1: no row. */
  rowOf: (key: string) => number;
  /** Lines that have no row of their own. */
  numHidden: number;
}

/** What only lines of the same one can have in common: an attempt's stream. */
interface Scope {
  /** Text → the latest row that begins with it. */
  latest: Map<string, number>;
  /** Rank → the row of its latest line, on either stream. */
  lastOf: Map<number, number>;
}

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
  const groups = merge ? merged(lines) : lines.map((line) => [line]);
  const rows: LogRow[] = [];
  let numHidden = 0;
  for (const same of groups) {
    const line = same[0] as LogLine;
    const isOpen =
      same.length > 1 &&
      (opened.has(lineKey(line)) ||
        (shown !== undefined && same.some((one) => one !== line && lineKey(one) === shown)));
    rows.push(rowFor(line, same, isOpen));
    if (isOpen)
      for (const one of same) if (one !== line) rows.push({ line: one, same: [one], isOpen: false, isOneOf: true });
    if (!isOpen) numHidden += same.length - 1;
  }
  return { rows, rowOf: (key) => findRow(rows, key), numHidden };
}

/** `rowsOf` that answers at once when it is asked the same again. */
export function newArranger(): typeof rowsOf {
  let asked: Parameters<typeof rowsOf> | undefined;
  let answer: LogRows | undefined;
  return (...ask) => {
    if (!answer || ask.some((one, i) => one !== asked?.[i])) answer = rowsOf(...ask);
    asked = ask;
    return answer;
  };
}

/** Rows that stay as they were stay the same objects, so that they are not drawn again. */
const known = new WeakMap<LogLine, LogRow>();

function rowFor(line: LogLine, same: LogLine[], isOpen: boolean): LogRow {
  const before = known.get(line);
  if (before?.isOpen === isOpen && before.same.length === same.length && before.same.every((one, i) => one === same[i]))
    return before;
  const row = { line, same, isOpen, isOneOf: false };
  known.set(line, row);
  return row;
}

/** Lines that are one row, in the order of their first ones. Runs over all lines whenever some come: it makes no text. */
function merged(lines: readonly LogLine[]): LogLine[][] {
  const groups: LogLine[][] = [];
  const scopeOf = scopes();
  for (const line of lines) {
    const { latest, lastOf } = scopeOf(line);
    const at = line.partial ? undefined : latest.get(line.text);
    const group = at === undefined ? undefined : groups[at];
    if (
      at !== undefined &&
      group !== undefined &&
      at > (lastOf.get(line.rank) ?? -1) && // nor has the rank a line in it already
      line.time_ms - (group[0]?.time_ms ?? 0) <= SAME_WITHIN_MS
    ) {
      group.push(line);
      lastOf.set(line.rank, at);
    } else {
      groups.push([line]);
      lastOf.set(line.rank, groups.length - 1);
      if (!line.partial) latest.set(line.text, groups.length - 1);
    }
  }
  return groups;
}

function scopes(): (line: LogLine) => Scope {
  const ofStreams = new Map<string, Scope>();
  const ofAttempts = new Map<string, Scope["lastOf"]>();
  let before: LogLine | undefined;
  let scope: Scope | undefined;
  return (line) => {
    const isSame =
      line.trial_id === before?.trial_id && line.attempt_no === before.attempt_no && line.stream === before.stream;
    before = line;
    if (scope && isSame) return scope;
    const attempt = `${line.trial_id} ${line.attempt_no}`;
    const lastOf = ofAttempts.get(attempt) ?? new Map<number, number>();
    ofAttempts.set(attempt, lastOf);
    scope = ofStreams.get(`${attempt} ${line.stream}`) ?? { latest: new Map<string, number>(), lastOf };
    ofStreams.set(`${attempt} ${line.stream}`, scope);
    return scope;
  };
}

function findRow(rows: readonly LogRow[], key: string): number {
  const [stream, no] = key.split(":").map(Number);
  const isIt = (line: LogLine): boolean => line.no === no && line.stream_id === stream;
  // A line that is shown beside the one that stands for it has a row of its own.
  const own = rows.findIndex(({ line }) => isIt(line));
  return own >= 0 ? own : rows.findIndex(({ same }) => same.length > 1 && same.some(isIt));
}
