import { useTranslation } from "react-i18next";

import { age, elapsed, MISSING } from "../lib/format";
import { usePref } from "../lib/prefs";
import { elapsedS, parseAt, stamp, type TimeZone } from "../lib/time";
import layout from "./layout.module.css";
import { useNow } from "./useNow";

/** Never broken over two lines. */
const NUMBER = `num ${layout["nowrap"]}`;

export function useTimeZone(): TimeZone {
  return usePref("timezone")[0] === "utc" ? "utc" : "local";
}

/** How long ago, to the unit, with the instant in the tooltip. */
export function Ago({ at, short = false }: { at: string | null | undefined; short?: boolean }) {
  const { t } = useTranslation();
  const now = useNow();
  const zone = useTimeZone();
  const value = parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  const seconds = Math.max(0, (now - value) / 1000);
  const text = seconds < 1.5 ? t("time.now") : short ? age(seconds) : t("time.ago", { age: age(seconds) });
  return (
    <time className={NUMBER} dateTime={at ?? ""} title={stamp(value, zone)}>
      {text}
    </time>
  );
}

/** How long until then, to the unit, with the instant in the tooltip. */
export function Until({ at }: { at: string | null | undefined }) {
  const { t } = useTranslation();
  const now = useNow();
  const zone = useTimeZone();
  const value = parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  const seconds = (value - now) / 1000;
  return (
    <time className={NUMBER} dateTime={at ?? ""} title={stamp(value, zone)}>
      {seconds < 1.5 ? t("time.now") : t("time.in", { age: age(seconds) })}
    </time>
  );
}

/** From start to end, or to now while it lasts. */
export function Elapsed({ start, end }: { start: string | null | undefined; end?: string | null }) {
  const now = useNow();
  return <span className={NUMBER}>{elapsed(elapsedS(start, end, now))}</span>;
}

export function Stamp({ at, part = "full" }: { at: string | number | null | undefined; part?: "full" | "time" }) {
  const zone = useTimeZone();
  const value = typeof at === "number" ? at : parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  return (
    <time className={NUMBER} dateTime={new Date(value).toISOString()} title={stamp(value, zone)}>
      {stamp(value, zone, part)}
    </time>
  );
}
