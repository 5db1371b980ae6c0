import { useTranslation } from "react-i18next";

import { Empty } from "../../components/basics";
import * as format from "../../lib/format";
import { compareSpecs, goalOf } from "../../lib/series/series";
import { bestOf, colorsOf, meanOf } from "./compareData";
import { GroupSelect } from "./GroupSelect";
import css from "./compare.module.css";
import { Matrix, type MatrixRow } from "./Matrix";
import type { Compared } from "./TrialChips";
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
  const names = compareSpecs(compared.flatMap(({ trial }) => Object.keys(trial.summary))).flatMap((spec) => spec.names);
  const byId = new Map(compared.map((one) => [one.id, one.trial]));
  const rowOf = (name: string): MatrixRow => {
    const means = groups.map(({ ids }) => meanOf(ids.map((id) => format.fromWire(byId.get(id)?.summary[name]?.last))));
    const best = bestOf(
      means.map((one) => one?.mean ?? null),
      goalOf(name),
    );
    const content = (one: (typeof means)[number], size: number) => (
      <>
        {format.metric(name, one?.mean)}
        {one?.sd ? <small> ± {format.metric(name, one.sd)}</small> : null}
        {/* A mean of fewer trials than the head names is not to be taken for one of all of them. */}
        {one && one.n < size ? <small> {t("compare.someOf", { n: one.n, count: size })}</small> : null}
      </>
    );
    return {
      key: name,
      cells: means.map((one, i) => ({ content: content(one, groups[i]?.ids.length ?? 0), isBest: i === best })),
    };
  };
  if (names.length === 0) return <Empty title={t("compare.noMetrics")} />;
  return (
    <>
      <div className={css["bar"]}>
        <GroupSelect grouping={grouping} onGroup={onGroup} />
        <span className="dim">{t("compare.groupHint")}</span>
      </div>
      <Matrix
        first={t("compare.metric")}
        columns={groups.map(({ label, ids }, i) => ({
          key: label,
          title: label,
          color: colors.get(i) ?? i,
          name: (
            <>
              {label} <small>{t("compare.sub", { count: ids.length })}</small>
            </>
          ),
        }))}
        rows={names.map(rowOf)}
        isNumeric
        testId="group-summary"
      />
    </>
  );
}
