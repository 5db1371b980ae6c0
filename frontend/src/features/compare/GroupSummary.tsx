import { useTranslation } from "react-i18next";

import { Empty } from "../../components/basics";
import * as format from "../../lib/format";
import { compareSpecs, goalOf } from "../../lib/series";
import { bestOf, colorsOf, meanOf } from "./compareData";
import { GroupSelect } from "./GroupSelect";
import css from "./compare.module.css";
import { type Compared, Swatch } from "./TrialChips";
import { useGroups } from "./useGroups";

/** The mean of each metric's last values by group, with the standard deviation; the best group stands out. */
export function GroupSummary({
  compared,
  group,
  onGroup,
}: {
  compared: Compared[];
  /** The key that was chosen, if one was. */
  group: string | undefined;
  onGroup: (key: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const grouping = useGroups(compared, group);
  const groups = grouping.groups ?? [];
  const colors = colorsOf(groups.map((_, i) => i));
  const names = compareSpecs([...new Set(compared.flatMap(({ trial }) => Object.keys(trial.summary)))]).map(
    ({ id }) => id,
  );
  const byId = new Map(compared.map((one) => [one.id, one.trial]));
  if (names.length === 0) return <Empty title={t("compare.noMetrics")} />;
  return (
    <>
      <div className={css["bar"]}>
        <GroupSelect grouping={grouping} onGroup={onGroup} />
        <span className="dim">{t("compare.groupHint")}</span>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <div className={css["scroller"]} tabIndex={0}>
        <table className={css["matrix"]} data-testid="group-summary">
          <thead>
            <tr>
              <th scope="col">{t("compare.metric")}</th>
              {groups.map(({ label, ids }, i) => (
                <th key={label} scope="col" title={label} data-number>
                  <Swatch color={colors.get(i) ?? i} /> {label} <small>{t("compare.sub", { count: ids.length })}</small>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => {
              const means = groups.map(({ ids }) =>
                meanOf(ids.map((id) => format.fromWire(byId.get(id)?.summary[name]?.last))),
              );
              const best = bestOf(
                means.map((one) => one?.mean ?? null),
                goalOf(name),
              );
              return (
                <tr key={name}>
                  <th scope="row" title={name}>
                    {name}
                  </th>
                  {means.map((one, i) => (
                    <td key={groups[i]?.label} data-number data-best={i === best || undefined}>
                      {format.metric(name, one?.mean)}
                      {one?.sd ? <small> ± {format.metric(name, one.sd)}</small> : null}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}
