/** The experiments table in groups: which statistics are asked for, and in which order groups stand. Pure. */
import type { ExperimentGroup } from "../../../api/queries";
import { isBuiltIn, type TableColumn } from "./tableColumns";

/** Built-in columns of which there is a mean. */
const NUMBERS = new Set(["best", "slots", "priority"]);
const MAX_STATISTICS = 12;

/**
 * The columns whose statistics stand beside the groups: the numbers among those of the table. Without a metric among
 * them, the one that most of the rows stand for.
 */
export function statisticsOf(
  columns: readonly TableColumn[],
  by: string,
  items: readonly { headline: { name: string } | null }[],
): string[] {
  const chosen = columns.map(({ id }) => id).filter((id) => id !== by && (!isBuiltIn(id) || NUMBERS.has(id)));
  const counted = new Map<string, number>();
  for (const { headline } of items) if (headline) counted.set(headline.name, (counted.get(headline.name) ?? 0) + 1);
  const [usual] = [...counted].toSorted((a, b) => b[1] - a[1]).map(([name]) => `metric.last.${name}`);
  const hasMetric = chosen.some((id) => id === "best" || id.startsWith("metric."));
  const first = usual === undefined || hasMetric || usual.includes('"') ? [] : [usual];
  return [...first, ...chosen].slice(0, MAX_STATISTICS);
}

export interface GroupOrder {
  /** "size", "value" or a column. */
  by: string;
  down: boolean;
}

/** Groups in order; what has no value comes last. */
export function ordered(groups: readonly ExperimentGroup[], { by, down }: GroupOrder): ExperimentGroup[] {
  const key = (group: ExperimentGroup): number | string | null =>
    by === "size" ? group.num_experiments : by === "value" ? group.value : (group.columns[by]?.mean ?? null);
  return groups.toSorted((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    const order =
      typeof x === "number" && typeof y === "number"
        ? x - y
        : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  });
}
