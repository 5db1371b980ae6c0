import { useTranslation } from "react-i18next";

import type { Goodput } from "../../../api/queries";
import { roundTicks } from "../../../charts/series/ticks";
import { SvgFigure } from "../../../charts/SvgFigure";
import { allocated, piecesOf, slotTime } from "../../../common/goodput/pieces";
import { word } from "../../../i18n/words";
import * as format from "../../../lib/format";
import { type Day, everyDay } from "./days";

const HEIGHT = 220;
const LEFT = 48;
const TOP = 8;
const BOTTOM = 24;
const WIDEST = 64;
const LABEL_PX = 52;
const MONTH_AT = 5;

/** The slot-hours of each day, cut into classes. */
export function TrendFigure({ data }: { data: Goodput }) {
  const { t } = useTranslation();
  const title = t("goodput.perDay");
  const pieces = piecesOf(data.classes);
  const days = everyDay(data);
  const cell = (slotS: number) => ({ text: slotTime(t, slotS), raw: slotS / 3600 });
  return (
    <SvgFigure
      title={title}
      unit={t("goodput.slotHoursUnit")}
      label={title}
      height={HEIGHT}
      keys={pieces.map(({ kind, color }) => ({ label: word(t, "goodput.kind", kind), color, shape: "square" }))}
      table={{
        head: [t("goodput.day"), t("goodput.held"), ...pieces.map(({ kind }) => word(t, "goodput.kind", kind))],
        rows: days.map(({ day, classes }) => [
          { text: day, raw: day },
          cell(allocated(classes)),
          ...pieces.map(({ kind }) => cell(classes[kind] ?? 0)),
        ]),
      }}
      testId="goodput-trend"
    >
      {(width) => <Bars days={days} width={width} />}
    </SvgFigure>
  );
}

function Bars({ days, width }: { days: Day[]; width: number }) {
  const { t } = useTranslation();
  const top = Math.max(...days.map(({ classes }) => allocated(classes) / 3600), Number.MIN_VALUE);
  const bottom = HEIGHT - BOTTOM;
  const y = (value: number): number => bottom - (value / top) * (bottom - TOP);
  const room = (width - LEFT) / days.length;
  const bar = Math.min(WIDEST, room * 0.75);
  const every = Math.ceil(LABEL_PX / room);
  return (
    <>
      {roundTicks(0, top, false, 4).map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={width} y1={y(tick)} y2={y(tick)} stroke="var(--grid)" />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end" fontSize={11} fill="var(--text-2)">
            {format.num(tick, 3)}
          </text>
        </g>
      ))}
      {days.map(({ day, classes }, no) => {
        const middle = LEFT + (no + 0.5) * room;
        let under = 0;
        return (
          <g key={day}>
            {piecesOf(classes).map(({ kind, slotS, color }) => {
              const from = under;
              under += slotS / 3600;
              return (
                <rect key={kind} x={middle - bar / 2} width={bar} y={y(under)} height={y(from) - y(under)} fill={color}>
                  <title>{`${day} · ${word(t, "goodput.kind", kind)}: ${slotTime(t, slotS)}`}</title>
                </rect>
              );
            })}
            {(days.length - 1 - no) % every === 0 ? (
              <text
                x={Math.min(middle, width - LABEL_PX / 3)}
                y={bottom + 17}
                textAnchor="middle"
                fontSize={11}
                fill="var(--text-2)"
              >
                {day.slice(MONTH_AT)}
              </text>
            ) : null}
          </g>
        );
      })}
    </>
  );
}
