/** Maintenance windows in words. */
import type { TFunction } from "i18next";

import type { MaintenanceWindow } from "../../api/queries";
import { parseAt, stamp, type TimeZone } from "../../lib/time";

const SOON_MS = 24 * 3_600_000;

/** What a window concerns: "the cluster", "pools a, b and node n1". */
export function scopeOf(t: TFunction, window: Pick<MaintenanceWindow, "pools" | "nodes">): string {
  const parts = (["pools", "nodes"] as const)
    .filter((kind) => window[kind].length > 0)
    .map((kind) => t(`maintenance.scope.${kind}`, { count: window[kind].length, names: window[kind].join(", ") }));
  return parts.join(t("maintenance.scope.and")) || t("maintenance.scope.cluster");
}

/** "Maintenance of pool gpu until 2026-12-01 19:00". */
export function titleOf(t: TFunction, window: MaintenanceWindow, zone: TimeZone): string {
  const at = (moment: string | null): string => stamp(parseAt(moment) ?? 0, zone, "minute");
  const scope = scopeOf(t, window);
  if (window.is_active) {
    return window.ends_at
      ? t("maintenance.activeUntil", { scope, until: at(window.ends_at) })
      : t("maintenance.active", { scope });
  }
  return window.ends_at
    ? t("maintenance.plannedUntil", { scope, from: at(window.starts_at), until: at(window.ends_at) })
    : t("maintenance.planned", { scope, from: at(window.starts_at) });
}

/** Windows that everybody is told of at this moment (ms): active ones, and those that start within a day and were not
 * dismissed. The server may not have been asked since one began or ended. */
export function toAnnounce(
  windows: readonly MaintenanceWindow[],
  dismissed: ReadonlySet<string>,
  now: number,
): MaintenanceWindow[] {
  return windows
    .map((window) => ({ ...window, is_active: (parseAt(window.starts_at) ?? 0) <= now }))
    .filter(({ ends_at }) => ends_at === null || (parseAt(ends_at) ?? 0) > now)
    .filter(
      (window) =>
        window.is_active || ((parseAt(window.starts_at) ?? 0) <= now + SOON_MS && !dismissed.has(dismissalKey(window))),
    );
}

/** The user who planned a window, with a token or without: the audit log has which one. */
export const whoOf = ({ created_by }: Pick<MaintenanceWindow, "created_by">): string =>
  created_by.replace(/^user:/, "").replace(/^token:\d+ \((.*)\)$/, "$1");

export const dismissalKey = ({ id }: Pick<MaintenanceWindow, "id">): string => `maintenance:${id}`;
