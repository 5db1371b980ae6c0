/** From the curves that a report holds to what a chart draws. Pure. */
import type { BlockContent } from "../../api/queries";
import type { Line, Source } from "../../charts/series/lines";
import { expressionSource, readAll } from "../../common/panels/panelLines";
import { meanOver } from "../../lib/series/axis";
import { type Columns, toColumns } from "../../lib/series/series";

/** More lines than that have no look of their own. */
const DISTINCT = 24;

type Run = BlockContent["runs"][number];
interface Curve {
  run: Run;
  columns: Columns;
  startMs: number;
}

/** The lines of a chart block: one for each run, or the mean of each group, of metrics or expressions of them. */
export function sourceOfBlock(block: BlockContent): Source {
  const runs = new Map(block.runs.map((run) => [run.trial_id, run]));
  const curves = (block.curves?.items ?? []).flatMap(({ trial_id: id, series, start_ms: start }): Curve[] => {
    const run = runs.get(id);
    return run ? [{ run, columns: toColumns(series), startMs: start ?? series.time_ms[0] ?? 0 }] : [];
  });
  const known = [...new Set(curves.map(({ columns }) => columns.name))];
  const isGrouped = block.runs.some(({ group }) => group !== null);
  const whose = [...new Set(block.runs.map((run) => (isGrouped ? (run.group ?? "") : String(run.trial_id))))];
  const source = (names: string[]): Source => {
    const lines = names.flatMap((name) => {
      const own = curves.filter(({ columns }) => columns.name === name);
      return isGrouped ? groupLines(name, own, whose, block.x) : runLines(name, own, whose);
    });
    return { lines: () => lines, subscribe: () => () => undefined, ready: () => true };
  };
  return expressionSource(readAll(block.expressions, known), source);
}

const runLines = (name: string, curves: readonly Curve[], whose: readonly string[]): Line[] =>
  curves.map(({ run, columns, startMs }) => ({
    key: `${name}@${run.trial_id}`,
    label: run.name,
    columns,
    color: whose.indexOf(String(run.trial_id)),
    faint: whose.length > DISTINCT,
    along: { startMs },
  }));

function groupLines(name: string, curves: readonly Curve[], whose: readonly string[], x: BlockContent["x"]): Line[] {
  return whose.flatMap((group, color) => {
    const members = curves.filter(({ run }) => run.group === group);
    if (members.length === 0) return [];
    const own = members.map(({ columns, startMs }) =>
      x === "relative" ? { ...columns, timeMs: columns.timeMs.map((at) => at - startMs) } : columns,
    );
    return [
      {
        key: `${name}@${group}`,
        label: `${group} (n=${members.length})`,
        columns: meanOver(own),
        color,
        band: members.length > 1,
        along: { startMs: 0 },
      },
    ];
  });
}
