import {
  IconAlertTriangle,
  IconBan,
  IconCheck,
  IconClock,
  IconHelp,
  IconLoader2,
  IconPlayerPause,
  IconPlayerPlayFilled,
  IconPlayerStop,
  IconPlugConnectedX,
  IconPlayerTrackNext,
  IconRefresh,
  IconX,
} from "@tabler/icons-react";
import type { i18n, TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import { word } from "../i18n/words";
import { type Glyph, lookOf } from "../lib/states";
import css from "./ui.module.css";

const ICONS: Record<Glyph, typeof IconCheck> = {
  play: IconPlayerPlayFilled,
  check: IconCheck,
  cross: IconX,
  clock: IconClock,
  loader: IconLoader2,
  stop: IconPlayerStop,
  pause: IconPlayerPause,
  retry: IconRefresh,
  early: IconPlayerTrackNext,
  question: IconHelp,
  ban: IconBan,
  unplug: IconPlugConnectedX,
};

/** The word for a state; a state this dashboard does not know is shown as the server wrote it. */
export function stateWord(t: TFunction, state: string): string {
  return word(t, "state", state, state.toLowerCase().replaceAll("_", " "));
}

const STATE = /^((?:Trial|Attempt) \d+ is )([A-Z_]+)/;

/**
 * The server names states as its interface does ("Trial 1 is COMPLETED: …"); pages have words for them. Its
 * sentences are English, and stay as they are on a page of another language.
 */
export const inWords = ({ language, t }: i18n, text: string): string =>
  language === "en"
    ? text.replace(STATE, (_, begins: string, state: string) => begins + stateWord(t, state).toLowerCase())
    : text;

export function StateBadge({ state, plain = false }: { state: string; plain?: boolean }) {
  const { t } = useTranslation();
  const { tone, glyph } = lookOf(state);
  const Icon = ICONS[glyph];
  return (
    <span className={css["badge"]} data-tone={tone} data-plain={plain || undefined} data-state={state}>
      <Icon size={12} stroke={2.25} aria-hidden />
      {stateWord(t, state)}
    </span>
  );
}

/** STALLED, DEGRADED, UNREACHABLE, QUIET: conditions beside a state. short: the sign alone, where there is little room. */
export function FlagBadge({ flag, short = false }: { flag: string; short?: boolean }) {
  const { t } = useTranslation();
  const text = word(t, "flag", flag, flag.toLowerCase());
  return (
    <span className={css["badge"]} data-tone="warn" data-plain={short || undefined} title={short ? text : undefined}>
      <IconAlertTriangle size={12} aria-hidden={!short} aria-label={short ? text : undefined} />
      {short ? null : text}
    </span>
  );
}
