import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";

import * as format from "../../lib/format";
import css from "./media.module.css";

/** A heat map whose cells say their counts; it scrolls in its own box when there are many classes. */
export function ConfusionMatrix({ names, counts }: { names: string[]; counts: number[][] }) {
  const { t } = useTranslation();
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["matrix"]} tabIndex={0} role="group" aria-label={t("evaluation.confusion")}>
      <table className={css["confusion"]} data-testid="confusion">
        <thead>
          <tr>
            <th scope="col">{t("evaluation.true")}</th>
            {names.map((name, to) => (
              <th key={to} scope="col" title={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {counts.map((row, from) => {
            const samples = row.reduce((sum, count) => sum + count, 0);
            return (
              <tr key={from}>
                <th scope="row" title={names[from]}>
                  {names[from]}
                </th>
                {row.map((count, to) => (
                  <td
                    key={to}
                    data-wrong={from === to ? undefined : true}
                    data-none={count === 0 ? true : undefined}
                    style={{ "--share": samples > 0 ? count / samples : 0 } as CSSProperties}
                    title={t("evaluation.cell", { count, samples, from: names[from] ?? "", to: names[to] ?? "" })}
                  >
                    {format.count(count)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
