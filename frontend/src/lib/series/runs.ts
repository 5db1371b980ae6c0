/**
 * The runs of one trial. The first has its metrics as they are called; those of the others begin with the label of what
 * was recorded as a run: `fold-1/loss`, or `run-2/loss` for one that a script has started without a name. Pure.
 */

/** What metrics themselves begin with: no child is taken for it. */
const OWN = new Set(["train", "val", "test", "throughput", "comm", "time", "pipeline", "network", "memory"]);

export type Labels = ReadonlySet<string>;
export const NO_LABELS: Labels = new Set();

/** The run of a series, "" for the first, and its metric. */
export function splitRun(name: string, labels: Labels): { run: string; metric: string } {
  const run: string[] = [];
  let metric = name;
  for (;;) {
    const head = metric.slice(0, Math.max(0, metric.indexOf("/")));
    const isRun = head !== "" && !OWN.has(head) && labels.has(head);
    if (!isRun) return { run: run.join("/"), metric };
    run.push(head);
    metric = metric.slice(head.length + 1);
  }
}

/** What the lines of a chart are called, one for each name. first: what the first run is called. */
export function lineLabels(names: readonly string[], labels: Labels, first: string): string[] {
  const parts = names.map((name) => splitRun(name, labels));
  const isOne = parts.every(({ metric }) => metric === parts[0]?.metric);
  if (isOne && parts.every(({ run }) => run === "")) return names.map(afterSlash);
  const found = parts.map(({ run, metric }) => {
    if (isOne) return run || first;
    const group = metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : metric;
    return run ? `${group} ${run}` : group;
  });
  return new Set(found).size < found.length ? [...names] : found;
}

const afterSlash = (name: string): string => name.slice(name.indexOf("/") + 1);
