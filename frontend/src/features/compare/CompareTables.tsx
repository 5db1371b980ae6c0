import { SegmentedControl, Switch, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import { Empty } from "../../components/basics";
import { useTyped } from "../../components/useTyped";
import * as format from "../../lib/format";
import { compareSpecs, goalOf } from "../../lib/series/series";
import { bestOf, change, differences, settingsOf, type Statistic, STATISTICS, valueText } from "./compareData";
import css from "./compare.module.css";
import { Matrix, type MatrixRow, useTrialColumns } from "./Matrix";
import type { Compared } from "./TrialChips";

/** Of a difference many times the baseline, how many times: such percentages nobody can read. */
const shareText = (share: number, sign: string, isAbove: boolean): string =>
  share >= 9 && isAbove ? `×${format.num(share + 1, 3)}` : `${sign}${format.pct(Math.abs(share))}`;

/** How far a value is from the baseline's. Worse and better differ by sign as well as by colour. */
export function Delta({
  name,
  value,
  base,
  goal,
}: {
  name: string;
  value: number | null;
  base: number | null;
  goal: "min" | "max" | null;
}) {
  const found = change(value, base);
  if (found === null) return null;
  const { by, share } = found;
  const tone = goal === null || by === 0 ? undefined : by < 0 === (goal === "min") ? "better" : "worse";
  const sign = by > 0 ? "+" : by < 0 ? "−" : "±";
  return (
    <small className={css["delta"]} data-tone={tone}>
      {sign}
      {format.metric(name, Math.abs(by))}
      {share === null ? "" : ` (${shareText(share, sign, (base ?? 0) > 0)})`}
    </small>
  );
}

/** Key by key, what each trial was told to do. What differs from the baseline is marked. */
export function ConfigTable({
  compared,
  base,
  all,
  onAll,
}: {
  compared: Compared[];
  base: number;
  all: boolean;
  onAll: (all: boolean) => void;
}) {
  const { t } = useTranslation();
  const columns = useTrialColumns(compared, base);
  const rows = differences(compared.map(({ trial }) => settingsOf(trial)));
  const shown = all ? rows : rows.filter((row) => row.differs);
  const same = rows.filter((row) => !row.differs).length;
  const baseAt = Math.max(
    0,
    compared.findIndex((one) => one.id === base),
  );
  return (
    <>
      <div className={css["bar"]}>
        <Switch label={t("compare.onlyDiff")} checked={!all} onChange={(e) => onAll(!e.currentTarget.checked)} />
        <span className="dim">{t("compare.sameHint", { count: same })}</span>
      </div>
      {shown.length === 0 ? (
        <Empty title={t("compare.same")} />
      ) : (
        <Matrix
          first={t("compare.key")}
          columns={columns}
          rows={shown.map((row) => ({
            key: row.key,
            cells: row.values.map((value) => ({
              content: value === undefined ? format.MISSING : valueText(value),
              title: valueText(value),
              differs: row.differs && valueText(value) !== valueText(row.values[baseAt]),
            })),
          }))}
          testId="config-diff"
        />
      )}
    </>
  );
}

/**
 * One value of each metric and trial, and how far it is from the baseline's. What stands for the trials comes first,
 * then what scripts log, losses before all.
 */
export function SummaryTable({
  compared,
  base,
  statistic,
  onStatistic,
  find,
  onFind,
}: {
  compared: Compared[];
  base: number;
  statistic: Statistic;
  onStatistic: (statistic: Statistic) => void;
  find: string | undefined;
  onFind: (find: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const [text, setText] = useTyped(find, 200, onFind);
  const columns = useTrialColumns(compared, base);
  const specs = compareSpecs(compared.flatMap(({ trial }) => Object.keys(trial.summary)));
  const headlines = compared.flatMap(({ trial }) => trial.headline ?? []);
  const all = [...new Set([...headlines, ...specs.flatMap(({ names: runs }) => runs)])];
  if (all.length === 0) return <Empty title={t("compare.noMetrics")} />;
  const wanted = (find ?? "").toLowerCase();
  const names = all.filter((name) => name.toLowerCase().includes(wanted));
  const baseAt = compared.findIndex((one) => one.id === base);
  const rowOf = (name: string): MatrixRow => {
    const entries = compared.map(({ trial }) => trial.summary[name]);
    const values = entries.map((entry) => format.fromWire(entry?.[statistic]));
    const best = bestOf(values, goalOf(name));
    const cells = values.map((value, i) => ({
      content: (
        <>
          {format.metric(name, value)}
          {i === baseAt ? null : <Delta name={name} value={value} base={values[baseAt] ?? null} goal={goalOf(name)} />}
        </>
      ),
      title: entries[i] && t("compare.over", { count: entries[i].count, step: format.count(entries[i].step) }),
      isBest: i === best,
    }));
    return { key: name, cells };
  };
  return (
    <>
      <div className={css["bar"]}>
        <SegmentedControl
          aria-label={t("compare.statistic")}
          value={statistic}
          onChange={(value) => onStatistic(value as Statistic)}
          data={STATISTICS.map((value) => ({ value, label: t(`compare.statistics.${value}`) }))}
        />
        <TextInput
          aria-label={t("metrics.find")}
          placeholder={t("metrics.find")}
          leftSection={<IconSearch size={14} />}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          data-filter
        />
        <span className="dim">{t("compare.bestHint")}</span>
      </div>
      {names.length === 0 ? <Empty title={t("metrics.noMatch", { text: find ?? "" })} /> : null}
      <Matrix first={t("compare.metric")} columns={columns} rows={names.map(rowOf)} isNumeric testId="summary" />
    </>
  );
}
