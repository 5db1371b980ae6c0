import * as format from "../lib/format";
import css from "./chart.module.css";

/** A metric that has a single value. */
export interface Tile {
  key: string;
  /** Whose value it is, where several stand side by side; "" for none. */
  label: string;
  value: format.WireNumber;
  /** Where it was reported, in words. */
  note: string;
}

/** Numbers without a curve: an axis of one point would say nothing. */
export function Tiles({ tiles }: { tiles: readonly { id: string; values: readonly Tile[] }[] }) {
  if (tiles.length === 0) return null;
  return (
    <dl className={css["tiles"]} data-testid="single-values">
      {tiles.map(({ id, values }) => (
        <div key={id} data-testid={`tile-${id}`}>
          <dt title={id}>{id}</dt>
          {values.map((one) => (
            <dd key={one.key} title={one.note}>
              {one.label === "" ? null : <span>{one.label}</span>}
              <b className="num">{format.metric(id, one.value)}</b>
              <small className="dim">{one.note}</small>
            </dd>
          ))}
        </div>
      ))}
    </dl>
  );
}
