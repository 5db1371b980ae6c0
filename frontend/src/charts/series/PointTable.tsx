import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { useTimeZone } from "../../components/Time";
import { type XKind, xOf } from "../../lib/series/axis";
import * as format from "../../lib/format";
import { indexAt, union } from "../../lib/series/series";
import css from "../chart.module.css";
import { extentText } from "./chartWords";
import type { Source } from "./lines";
import { xText } from "./plotOptions";

const TABLE_ROWS = 200;

/** The same data for people who do not see the canvas: newest first. */
export function PointTable({
  source,
  metric,
  height,
  kind,
  xName,
}: {
  source: Source;
  metric: string;
  height: number;
  kind: XKind;
  xName: string;
}) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const [, setTick] = useState(0);
  useEffect(() => source.subscribe(() => setTick((n) => n + 1)), [source]);
  const lines = source.lines();
  const own = lines.map((line) => xOf(line.columns, kind, line.along));
  const x = union(own);
  const shown = Array.from(x.slice(-TABLE_ROWS)).toReversed();
  const cut =
    x.length > shown.length ? t("chart.newest", { n: format.count(shown.length), all: format.count(x.length) }) : "";
  const about = [extentText(lines, t), cut].filter(Boolean).join(" · ");
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["table"]} style={{ height }} tabIndex={0}>
      <table>
        {about === "" ? null : <caption>{about}</caption>}
        <thead>
          <tr>
            <th scope="col">{xName}</th>
            {lines.map((line) => (
              <th scope="col" key={line.key}>
                {line.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((at) => (
            <tr key={at}>
              <td>{xText(kind, at, zone)}</td>
              {lines.map((line, k) => {
                const mine = own[k] ?? line.columns.step;
                const i = indexAt(mine, at);
                const value = mine[i] === at ? line.columns.mean[i] : null;
                return <td key={line.key}>{format.metric(metric, value as number | null)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
