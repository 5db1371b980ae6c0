import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import css from "./compare.module.css";
import { type Compared, Swatch } from "./TrialChips";

export interface MatrixColumn {
  key: string | number;
  /** The whole name, where the head cuts it. */
  title: string;
  color: number;
  name: ReactNode;
}

interface Cell {
  content: ReactNode;
  title?: string;
  isBest?: boolean;
  /** It is not what the baseline has. */
  differs?: boolean;
}

export interface MatrixRow {
  key: string;
  /** What it is called, where that is not the key itself. */
  label?: string;
  /** One per column. */
  cells: Cell[];
}

/** Rows of keys or metrics, and a column for each trial or group; both heads stay while it scrolls. */
export function Matrix({
  first,
  columns,
  rows,
  isNumeric = false,
  testId,
}: {
  /** The head of the column of names. */
  first: string;
  columns: readonly MatrixColumn[];
  rows: readonly MatrixRow[];
  isNumeric?: boolean;
  testId: string;
}) {
  const number = isNumeric || undefined;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["scroller"]} tabIndex={0}>
      <table className={css["matrix"]} data-testid={testId}>
        <thead>
          <tr>
            <th scope="col">{first}</th>
            {columns.map(({ key, title, color, name }) => (
              <th key={key} scope="col" title={title} data-number={number}>
                <Swatch color={color} /> {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, label, cells }) => (
            <tr key={key}>
              <th scope="row" title={key} data-words={label !== undefined || undefined}>
                {label ?? key}
              </th>
              {cells.map((cell, i) => (
                <td
                  key={columns[i]?.key}
                  title={cell.title}
                  data-number={number}
                  data-best={cell.isBest || undefined}
                  data-differs={cell.differs || undefined}
                >
                  {cell.content}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A column for each trial; the one that the others are compared with is marked. */
export function useTrialColumns(compared: readonly Compared[], base: number): MatrixColumn[] {
  const { t } = useTranslation();
  return compared.map(({ id, name, color }) => ({
    key: id,
    title: name,
    color,
    name: (
      <>
        {name}
        {id === base ? <small> {t("compare.baseline")}</small> : null}
      </>
    ),
  }));
}
