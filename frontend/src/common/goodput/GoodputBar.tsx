import { Tooltip } from "@mantine/core";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import { word } from "../../i18n/words";
import * as format from "../../lib/format";
import css from "./goodput.module.css";
import { type Piece, slotTime } from "./pieces";

const ALWAYS = { hover: true, focus: true, touch: true };

const amount = (t: TFunction, { share, slotS }: Piece): string => `${format.pct(share)} · ${slotTime(t, slotS)}`;
const named = (t: TFunction, piece: Piece): string => `${word(t, "goodput.kind", piece.kind)}: ${amount(t, piece)}`;

interface Props {
  pieces: Piece[];
  label: string;
}

/** One stacked bar; the pointer and the keyboard reach each piece and learn what it is. length: of its room, 0..1. */
export function GoodputBar({ pieces, label, length }: Props & { length?: number }) {
  const { t } = useTranslation();
  return (
    <ul
      className={css["bar"]}
      aria-label={label}
      data-thin={length !== undefined || undefined}
      style={{ width: `${(length ?? 1) * 100}%` }}
    >
      {pieces.map((piece) => (
        <Tooltip key={piece.kind} label={named(t, piece)} events={ALWAYS}>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- its tooltip must be reachable by keyboard */}
          <li style={{ flex: `${piece.share} 1 0`, background: piece.color }} tabIndex={0} data-kind={piece.kind}>
            <span className="srOnly">{named(t, piece)}</span>
          </li>
        </Tooltip>
      ))}
    </ul>
  );
}

/** The same in a row of a table: one picture, in words for who does not see it. */
export function MiniBar({ pieces, label }: Props) {
  const { t } = useTranslation();
  const text = `${label}: ${pieces.map((piece) => `${word(t, "goodput.kind", piece.kind)} ${format.pct(piece.share)}`).join(", ")}`;
  return (
    <span className={css["mini"]} role="img" aria-label={text} title={text}>
      {pieces.map(({ kind, share, color }) => (
        <span key={kind} style={{ flex: `${share} 1 0`, background: color }} />
      ))}
    </span>
  );
}

/** What the colors stand for, with share and slot-hours. */
export function GoodputLegend({ pieces }: { pieces: Piece[] }) {
  const { t } = useTranslation();
  return (
    <ul className={css["legend"]}>
      {pieces.map((piece) => (
        <li key={piece.kind}>
          <Kind kind={piece.kind} color={piece.color} />
          <span>{amount(t, piece)}</span>
        </li>
      ))}
    </ul>
  );
}

/** The name of a class behind its color. */
export function Kind({ kind, color }: { kind: string; color: string | undefined }) {
  const { t } = useTranslation();
  return (
    <span className={css["kind"]}>
      <i className={css["swatch"]} style={{ background: color }} aria-hidden />
      {word(t, "goodput.kind", kind)}
    </span>
  );
}
