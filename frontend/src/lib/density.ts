/** How high the rows of tables are, as this browser remembers it. */
import { usePref } from "./prefs";

export const DENSITIES = ["compact", "normal", "comfortable"] as const;
export type Density = (typeof DENSITIES)[number];

/** Height of a row of a table in pixels, its line included. */
export const ROW_PX: Readonly<Record<Density, number>> = { compact: 29, normal: 35, comfortable: 43 };

export function useDensity(): [Density, (density: Density) => void] {
  const [value, set] = usePref("density");
  const density = DENSITIES.find((one) => one === value) ?? "normal";
  return [density, (next) => set(next === "normal" ? null : next)];
}
