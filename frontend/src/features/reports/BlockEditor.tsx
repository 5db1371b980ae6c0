import { ActionIcon, Checkbox, MultiSelect, NumberInput, Select, TagsInput, TextInput, Tooltip } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { experimentColumns, experiments, type ReportBlock } from "../../api/queries";
import { NotesField } from "../../common/experiments/Notes";
import css from "./reports.module.css";

interface Props {
  no: number;
  project: string;
  block: ReportBlock;
  onChange: (block: ReportBlock) => void;
  /** Null: it is the first. */
  onUp: (() => void) | null;
  /** Null: it is the last. */
  onDown: (() => void) | null;
  onRemove: () => void;
}

type Block<K extends ReportBlock["kind"]> = Extract<ReportBlock, { kind: K }>;
interface Fields<K extends ReportBlock["kind"]> {
  block: Block<K>;
  project: string;
  onChange: (block: ReportBlock) => void;
}

const SMOOTHING = ["0", "0.6", "0.9", "0.99"];
const FIXED = ["name", "experiment", "trial", "state", "step", "seed"];
const LISTED = 200;

/** The form of one block. */
export function BlockEditor({ no, project, block, onChange, onUp, onDown, onRemove }: Props) {
  const { t } = useTranslation();
  const name = `${t(`reports.kind.${block.kind}`)} ${no + 1}`;
  return (
    <section className={css["card"]} aria-label={name} data-testid={`block-${no}`}>
      <header>
        <h2>{t(`reports.kind.${block.kind}`)}</h2>
        <Tool label={t("reports.up")} name={name} run={onUp}>
          <IconArrowUp size={15} aria-hidden />
        </Tool>
        <Tool label={t("reports.down")} name={name} run={onDown}>
          <IconArrowDown size={15} aria-hidden />
        </Tool>
        <Tool label={t("reports.remove")} name={name} run={onRemove}>
          <IconTrash size={15} aria-hidden />
        </Tool>
      </header>
      {block.kind === "markdown" ? (
        <NotesField label={t("reports.text")} value={block.text} onChange={(text) => onChange({ ...block, text })} />
      ) : (
        <>
          <TextInput
            label={t("reports.blockTitle")}
            value={block.title}
            maxLength={200}
            onChange={(event) => onChange({ ...block, title: event.currentTarget.value })}
          />
          <RunFields project={project} runs={block.runs} onChange={(runs) => onChange({ ...block, runs })} />
          {block.kind === "table" ? <TableFields block={block} project={project} onChange={onChange} /> : null}
          {block.kind === "chart" ? <ChartFields block={block} project={project} onChange={onChange} /> : null}
          {block.kind === "media" ? <MediaFields block={block} project={project} onChange={onChange} /> : null}
        </>
      )}
    </section>
  );
}

function Tool({
  label,
  name,
  run,
  children,
}: {
  label: string;
  name: string;
  run: (() => void) | null;
  children: ReactNode;
}) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`${label}: ${name}`}
        disabled={run === null}
        onClick={() => run?.()}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

type Runs = Block<"table">["runs"];

function RunFields({ project, runs, onChange }: { project: string; runs: Runs; onChange: (runs: Runs) => void }) {
  const { t } = useTranslation();
  const listed = useInfiniteQuery(experiments({ project }, LISTED)).data?.pages[0]?.items ?? [];
  const names = new Map(listed.map(({ id, name }) => [id, name]));
  const ids = [...new Set([...listed.map(({ id }) => id), ...(runs.experiments ?? [])])];
  return (
    <fieldset className={css["runs"]}>
      <legend>{t("reports.runs")}</legend>
      <div className={css["fields"]}>
        <MultiSelect
          label={t("reports.experiments")}
          data={ids.map((id) => ({ value: String(id), label: `${id} ${names.get(id) ?? ""}`.trim() }))}
          value={(runs.experiments ?? []).map(String)}
          searchable
          limit={50}
          maxValues={100}
          onChange={(values) => onChange({ ...runs, experiments: values.map(Number) })}
        />
        <TagsInput
          label={t("reports.labels")}
          description={t("reports.labelsHint")}
          placeholder="paper=icml"
          value={runs.labels ?? []}
          maxTags={10}
          onChange={(labels) => onChange({ ...runs, labels })}
        />
        <TagsInput
          label={t("reports.trials")}
          description={t("reports.trialsHint")}
          value={(runs.trials ?? []).map(String)}
          maxTags={200}
          onChange={(values) => onChange({ ...runs, trials: values.map(Number).filter((id) => id > 0) })}
        />
      </div>
      <Checkbox
        label={t("reports.onlyCompleted")}
        checked={runs.only_completed ?? false}
        onChange={(event) => onChange({ ...runs, only_completed: event.currentTarget.checked })}
      />
    </fieldset>
  );
}

/** Columns that the newest experiments of the project have values for. */
function useColumns(project: string): string[] {
  const found = useQuery(experimentColumns(project)).data?.items ?? [];
  return found.map(({ column }) => column);
}

const LAST = "metric.last.";
const metricsAmong = (columns: readonly string[]): string[] =>
  columns.filter((one) => one.startsWith(LAST)).map((one) => one.slice(LAST.length));

function TableFields({ block, project, onChange }: Fields<"table">) {
  const { t } = useTranslation();
  const columns = useColumns(project);
  const keys = [...FIXED, ...columns.filter((one) => !one.startsWith("metric."))];
  const statistics = metricsAmong(columns).flatMap((name) =>
    ["last", "min", "max"].map((of) => `metric.${of}.${name}`),
  );
  const rename = (column: string, name: string): void => {
    const { [column]: _, ...others } = block.headers ?? {};
    onChange({ ...block, headers: name === "" ? others : { ...others, [column]: name } });
  };
  return (
    <>
      <TagsInput
        label={t("reports.groupBy")}
        description={t("reports.groupByHint")}
        data={keys}
        value={block.group_by ?? []}
        maxTags={4}
        onChange={(value) => onChange({ ...block, group_by: value })}
      />
      <TagsInput
        label={t("reports.columns")}
        data={[...statistics, ...keys]}
        value={block.columns}
        maxTags={20}
        onChange={(value) => onChange({ ...block, columns: value })}
      />
      <div className={css["fields"]}>
        {[...(block.group_by ?? []), ...block.columns].map((column) => (
          <TextInput
            key={column}
            label={t("reports.header", { column })}
            value={block.headers?.[column] ?? ""}
            maxLength={200}
            onChange={(event) => rename(column, event.currentTarget.value)}
          />
        ))}
        <NumberInput
          label={t("reports.baseline")}
          description={t("reports.baselineHint")}
          value={block.baseline ?? ""}
          min={1}
          allowDecimal={false}
          hideControls
          onChange={(value) => onChange({ ...block, baseline: value === "" ? null : Number(value) })}
        />
        <NumberInput
          label={t("reports.decimals")}
          description={t("reports.decimalsHint")}
          value={block.decimals ?? ""}
          min={0}
          max={12}
          allowDecimal={false}
          onChange={(value) => onChange({ ...block, decimals: value === "" ? null : Number(value) })}
        />
      </div>
    </>
  );
}

function ChartFields({ block, project, onChange }: Fields<"chart">) {
  const { t } = useTranslation();
  const columns = useColumns(project);
  return (
    <>
      <TagsInput
        label={t("reports.metrics")}
        data={metricsAmong(columns)}
        value={block.metrics}
        maxTags={12}
        onChange={(metrics) => onChange({ ...block, metrics })}
      />
      <TagsInput
        label={t("reports.expressions")}
        description={t("reports.expressionsHint")}
        placeholder="train/loss - val/loss"
        splitChars={[]}
        value={block.expressions ?? []}
        maxTags={12}
        onChange={(expressions) => onChange({ ...block, expressions })}
      />
      <div className={css["fields"]}>
        <Select
          label={t("reports.groupBy")}
          description={t("reports.bandHint")}
          data={[...FIXED, ...columns.filter((one) => !one.startsWith("metric."))]}
          value={block.group_by ?? null}
          searchable
          clearable
          onChange={(value) => onChange({ ...block, group_by: value })}
        />
        <Select
          label={t("reports.x")}
          allowDeselect={false}
          data={[
            { value: "step", label: t("chart.step") },
            { value: "relative", label: t("metrics.xKind.relative") },
            { value: "wall", label: t("metrics.xKind.wall") },
          ]}
          value={block.x ?? "step"}
          onChange={(value) => onChange({ ...block, x: value as Block<"chart">["x"] })}
        />
        <Select
          label={t("reports.smoothing")}
          allowDeselect={false}
          data={SMOOTHING}
          value={String(block.smoothing ?? 0)}
          onChange={(value) => onChange({ ...block, smoothing: Number(value) })}
        />
      </div>
      <Checkbox
        label={t("reports.log")}
        checked={block.log ?? false}
        onChange={(event) => onChange({ ...block, log: event.currentTarget.checked })}
      />
    </>
  );
}

function MediaFields({ block, onChange }: Fields<"media">) {
  const { t } = useTranslation();
  return (
    <div className={css["fields"]}>
      <TagsInput
        label={t("reports.mediaNames")}
        description={t("reports.mediaNamesHint")}
        placeholder="samples"
        value={block.names}
        maxTags={8}
        onChange={(names) => onChange({ ...block, names })}
      />
      <NumberInput
        label={t("reports.step")}
        description={t("reports.stepHint")}
        value={block.step ?? ""}
        min={0}
        allowDecimal={false}
        hideControls
        onChange={(value) => onChange({ ...block, step: value === "" ? null : Number(value) })}
      />
    </div>
  );
}
