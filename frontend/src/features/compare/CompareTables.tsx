import { SegmentedControl, Switch } from "@mantine/core";
import { useTranslation } from "react-i18next";

import { Empty } from "../../components/basics";
import * as format from "../../lib/format";
import { bestOf, differences, goalOf, settingsOf, type Statistic, STATISTICS, valueText } from "./compareData";
import css from "./compare.module.css";
import { type Compared, Swatch } from "./TrialChips";

function Heads({ compared, first, number }: { compared: Compared[]; first: string; number?: true }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {compared.map(({ id, name, color }) => (
          <th key={id} scope="col" title={name} data-number={number}>
            <Swatch color={color} /> {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Key by key, what each trial was told to do. */
export function ConfigTable({
  compared,
  all,
  onAll,
}: {
  compared: Compared[];
  all: boolean;
  onAll: (all: boolean) => void;
}) {
  const { t } = useTranslation();
  const rows = differences(compared.map(({ trial }) => settingsOf(trial)));
  const shown = all ? rows : rows.filter((row) => row.differs);
  const same = rows.filter((row) => !row.differs).length;
  return (
    <>
      <div className={css["bar"]}>
        <Switch label={t("compare.onlyDiff")} checked={!all} onChange={(e) => onAll(!e.currentTarget.checked)} />
        <span className="dim">{t("compare.sameHint", { count: same })}</span>
      </div>
      {shown.length === 0 ? (
        <Empty title={t("compare.same")} />
      ) : (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
        <div className={css["scroller"]} tabIndex={0}>
          <table className={css["matrix"]} data-testid="config-diff">
            <Heads compared={compared} first={t("compare.key")} />
            <tbody>
              {shown.map((row) => (
                <tr key={row.key}>
                  <th scope="row" title={row.key}>
                    {row.key}
                  </th>
                  {row.values.map((value, i) => (
                    <td
                      key={compared[i]?.id}
                      title={valueText(value)}
                      data-differs={(row.differs && valueText(value) !== valueText(row.values[0])) || undefined}
                    >
                      {value === undefined ? format.MISSING : valueText(value)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** One value of each metric and trial. */
export function SummaryTable({
  compared,
  statistic,
  onStatistic,
}: {
  compared: Compared[];
  statistic: Statistic;
  onStatistic: (statistic: Statistic) => void;
}) {
  const { t } = useTranslation();
  const names = [...new Set(compared.flatMap(({ trial }) => Object.keys(trial.summary)))].toSorted();
  if (names.length === 0) return <Empty title={t("compare.noMetrics")} />;
  return (
    <>
      <div className={css["bar"]}>
        <SegmentedControl
          aria-label={t("compare.statistic")}
          value={statistic}
          onChange={(value) => onStatistic(value as Statistic)}
          data={STATISTICS.map((value) => ({ value, label: t(`compare.statistics.${value}`) }))}
        />
        <span className="dim">{t("compare.bestHint")}</span>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <div className={css["scroller"]} tabIndex={0}>
        <table className={css["matrix"]} data-testid="summary">
          <Heads compared={compared} first={t("compare.metric")} number />
          <tbody>
            {names.map((name) => {
              const values = compared.map(({ trial }) => format.fromWire(trial.summary[name]?.[statistic]));
              const best = bestOf(values, goalOf(name));
              return (
                <tr key={name}>
                  <th scope="row" title={name}>
                    {name}
                  </th>
                  {values.map((value, i) => (
                    <td key={compared[i]?.id} data-number data-best={i === best || undefined}>
                      {format.metric(name, value as number | null)}
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
