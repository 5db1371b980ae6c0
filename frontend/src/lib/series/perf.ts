/** Where a step's time goes, in words and numbers. Pure. */
/** The parts of a step, in the order they are stacked. They sum to the step within 2 %. */
export const STEP_PARTS = [
  "time/data_wait_ms",
  "time/host_to_device_ms",
  "time/forward_ms",
  "time/backward_ms",
  "comm/exposed_ms",
  "pipeline/bubble_ms",
  "time/optimizer_ms",
  "time/no_grad_ms",
  "time/checkpoint_ms",
  "time/other_ms",
] as const;

export type StepPart = (typeof STEP_PARTS)[number];

/** The color of each part, in figures and beside tables; charts/palette.ts has the same for canvases. */
export const PART_COLORS: Record<StepPart, string> = {
  "time/data_wait_ms": "var(--series-1)",
  "time/host_to_device_ms": "var(--part-device)",
  "time/forward_ms": "var(--part-forward)",
  "time/backward_ms": "var(--series-0)",
  "comm/exposed_ms": "var(--series-2)",
  "pipeline/bubble_ms": "var(--part-bubble)",
  "time/optimizer_ms": "var(--series-5)",
  "time/no_grad_ms": "var(--part-no-grad)",
  "time/checkpoint_ms": "var(--series-3)",
  "time/other_ms": "var(--series-4)",
};

/** Smallest share of the step that a part is shown with. */
export const LEAST_SHARE = 0.001;

/** Range list for ranks: [0,1,2,5,7,8] → "0–2, 5, 7–8". */
export function rankRanges(ranks: readonly number[]): string {
  const sorted = [...new Set(ranks)].toSorted((a, b) => a - b);
  const out: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === (sorted[j] ?? 0) + 1) j += 1;
    out.push(i === j ? `${sorted[i]}` : `${sorted[i]}–${sorted[j]}`);
    i = j + 1;
  }
  return out.join(", ");
}
