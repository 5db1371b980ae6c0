import { useTranslation } from "react-i18next";

import * as format from "../../lib/format";
import type { TableContent } from "./mediaData";
import css from "./media.module.css";

const ROWS_SHOWN = 100;

/** The first rows of a table; the file has those that were kept. */
export function MediaTable({ content, label }: { content: TableContent; label: string }) {
  const { t } = useTranslation();
  const rows = content.rows.slice(0, ROWS_SHOWN);
  return (
    <>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <div className={css["table"]} tabIndex={0} role="group" aria-label={label}>
        <table data-testid="media-table">
          <thead>
            <tr>
              {content.columns.map((name, no) => (
                // oxlint-disable-next-line react/no-array-index-key -- two columns may have one name
                <th key={no} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, no) => (
              // oxlint-disable-next-line react/no-array-index-key -- rows of a table never move
              <tr key={no}>
                {row.map((value, column) => (
                  // oxlint-disable-next-line react/no-array-index-key
                  <td key={column} data-number={typeof value === "number" || undefined}>
                    {typeof value === "number" ? format.num(value, 6) : String(value ?? format.MISSING)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {content.num_rows > rows.length ? (
        <p className="dim">
          {t("media.firstRows", { n: format.count(rows.length), all: format.count(content.num_rows) })}
          {content.num_rows > content.rows.length
            ? ` ${t("media.keptRows", { n: format.count(content.rows.length) })}`
            : null}
        </p>
      ) : null}
    </>
  );
}
