import { Badge, Button, Group, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import {
  me,
  type OutputFile,
  outputFiles,
  type OutputSort,
  type OutputsSummary,
  outputsSummary,
  type OutputsWanted,
  type TrialDetail,
} from "../../../api/queries";
import { Code, Empty, Notice, Stats } from "../../../components/basics";
import { actions, type Column, column } from "../../../components/tables/DataTable";
import { PagedTable } from "../../../components/tables/PagedTable";
import { QueryView } from "../../../components/QueryView";
import { Ago } from "../../../components/Time";
import * as format from "../../../lib/format";
import layout from "../../../components/layout.module.css";
import css from "../trials.module.css";
import { RegisterButton } from "../../../common/models/RegisterButton";
import { DownloadOutputs } from "./DownloadOutputs";
import { OutputPreview } from "./OutputPreview";
import { OutputsRetention } from "./OutputsRetention";

const TYPING_MS = 250;
/** Files that are shown as they are found without asking. */
const isKept = (file: OutputFile) => file.state === "kept" || file.state === "growing";

/** The files that a trial wrote: those of all its nodes as one folder. */
export function Outputs({ trial }: { trial: TrialDetail }) {
  const query = useQuery(outputsSummary(trial.id));
  return (
    <QueryView query={query}>
      {(summary) =>
        summary.state === "deleted" ? (
          <Deleted size={format.bytes(summary.deleted_bytes)} />
        ) : summary.nodes.length === 0 ? (
          <NothingYet state={summary.state} />
        ) : (
          <Files trial={trial} summary={summary} />
        )
      }
    </QueryView>
  );
}

function Deleted({ size }: { size: string }) {
  const { t } = useTranslation();
  return <Empty title={t("outputs.deleted", { size })}>{t("outputs.deletedHint")}</Empty>;
}

function NothingYet({ state }: { state: OutputsSummary["state"] }) {
  const { t } = useTranslation();
  return (
    <Empty title={t(state === "off" ? "outputs.off" : "outputs.none")}>
      {t(state === "off" ? "outputs.offHint" : "outputs.noneHint")}
    </Empty>
  );
}

function Files({ trial, summary }: { trial: TrialDetail; summary: OutputsSummary }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const mayChange = user !== undefined && user.role !== "viewer";
  const [typed, setTyped] = useState("");
  const [text] = useDebouncedValue(typed, TYPING_MS);
  const [onlyLeftOut, setOnlyLeftOut] = useState(false);
  const [sort, setSort] = useState<Pick<OutputsWanted, "sort" | "order">>({ sort: "path", order: "asc" });
  const [shown, setShown] = useState<OutputFile | null>(null);
  const query = useInfiniteQuery(outputFiles(trial.id, { text, onlyLeftOut, ...sort }));
  const columns = useColumns(trial, summary, sort, setSort, setShown);
  return (
    <>
      <Problems summary={summary} onlyLeftOut={onlyLeftOut} onLeftOut={() => setOnlyLeftOut(!onlyLeftOut)} />
      <Stats
        compact
        items={[
          { label: t("outputs.files"), value: format.count(summary.num_files), testId: "outputs-count" },
          { label: t("outputs.size"), value: format.bytes(summary.size_bytes) },
          { label: t("outputs.nodes"), value: format.count(summary.nodes.length) },
        ]}
      />
      <OutputsRetention summary={summary} />
      <Group justify="space-between" align="end" mb="xs" mt="xs">
        <TextInput
          label={t("outputs.search")}
          placeholder="*.pt"
          size="xs"
          value={typed}
          maxLength={200}
          onChange={(event) => setTyped(event.currentTarget.value)}
          data-testid="outputs-search"
        />
        {summary.num_files > 0 ? (
          <Group gap="xs">
            {mayChange ? <RegisterButton source={{ trialId: trial.id }} variant="default" /> : null}
            <DownloadOutputs trialId={trial.id} paths={null} label={t("outputs.downloadAll")} />
          </Group>
        ) : null}
      </Group>
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0)
            return (
              <Empty title={t(text || onlyLeftOut ? "outputs.noMatch" : "outputs.empty")}>
                {text || onlyLeftOut ? null : t("outputs.noneHint")}
              </Empty>
            );
          return (
            <PagedTable
              query={query}
              rows={items}
              rowKey={(file) => file.path}
              label={t("trial.tab.outputs")}
              testId="outputs"
              columns={columns}
            />
          );
        }}
      </QueryView>
      <p className={`dim ${layout["aboveM"]}`}>
        {t("outputs.command")} <Code text={`muster outputs get ${trial.experiment_id}.${trial.no}`} />
      </p>
      {shown ? <OutputPreview trialId={trial.id} file={shown} onClose={() => setShown(null)} /> : null}
    </>
  );
}

/** What is missing, left out or ambiguous, and where; nothing when all is well. */
function Problems({
  summary,
  onlyLeftOut,
  onLeftOut,
}: {
  summary: OutputsSummary;
  onlyLeftOut: boolean;
  onLeftOut: () => void;
}) {
  const { t } = useTranslation();
  const lines = summary.nodes.flatMap((node) => [
    ...(node.problem ? [{ key: `${node.node_rank}p`, text: `${node.node_name}: ${node.problem}` }] : []),
    ...(node.state === "missing" && !node.problem
      ? [{ key: `${node.node_rank}m`, text: t("outputs.notCollected", { node: node.node_name }) }]
      : []),
    ...(node.is_reachable
      ? []
      : [{ key: `${node.node_rank}r`, text: t("outputs.unreachable", { node: node.node_name }) }]),
  ]);
  return (
    <>
      {lines.length > 0 ? (
        <Notice tone="warn" title={t(summary.state === "incomplete" ? "outputs.incomplete" : "outputs.attention")}>
          <ul className={layout["bullets"]} data-testid="outputs-missing">
            {lines.map((line) => (
              <li key={line.key}>{line.text}</li>
            ))}
          </ul>
        </Notice>
      ) : null}
      {summary.num_left_out > 0 ? (
        <Notice
          tone="warn"
          title={t("outputs.leftOut", {
            count: summary.num_left_out,
            size: format.bytes(summary.left_out_bytes),
          })}
          action={
            <Button size="compact-xs" variant="default" onClick={onLeftOut} data-testid="outputs-left-out">
              {t(onlyLeftOut ? "outputs.showAll" : "outputs.showLeftOut")}
            </Button>
          }
        >
          {t("outputs.leftOutHint")}
        </Notice>
      ) : null}
      {summary.num_conflicts > 0 ? (
        <Notice title={t("outputs.conflicts", { count: summary.num_conflicts })}>{t("outputs.conflictsHint")}</Notice>
      ) : null}
      {summary.state === "collecting" ? <Notice>{t("outputs.collecting")}</Notice> : null}
    </>
  );
}

function useColumns(
  trial: TrialDetail,
  summary: OutputsSummary,
  sort: Pick<OutputsWanted, "sort" | "order">,
  setSort: (sort: Pick<OutputsWanted, "sort" | "order">) => void,
  onShow: (file: OutputFile) => void,
): Column<OutputFile>[] {
  const { t } = useTranslation();
  const by = (name: OutputSort, first: "asc" | "desc") => ({
    direction: sort.sort === name ? sort.order : null,
    toggle: () => setSort({ sort: name, order: sort.sort !== name ? first : sort.order === "asc" ? "desc" : "asc" }),
  });
  return [
    {
      id: "path",
      header: t("outputs.path"),
      lead: true,
      sort: by("path", "asc"),
      cell: (file) =>
        isKept(file) ? (
          <button
            type="button"
            className={`mono ${css["openFile"]}`}
            onClick={() => onShow(file)}
            data-testid="output-open"
          >
            {file.path}
          </button>
        ) : (
          <span className={`mono ${layout["anywhere"]}`}>{file.path}</span>
        ),
    },
    {
      id: "size",
      header: t("outputs.size"),
      align: "right",
      sort: by("size", "desc"),
      cell: (file) => (file.state === "link" ? format.MISSING : format.bytes(file.size_bytes)),
    },
    {
      id: "modified",
      header: t("outputs.modified"),
      align: "right",
      sort: by("modified", "desc"),
      cell: (file) => <Ago at={file.modified_at} />,
    },
    ...(summary.nodes.length > 1
      ? [column("nodes", t("outputs.nodes"), (file: OutputFile) => file.nodes.join(", "))]
      : []),
    column("state", t("outputs.state"), (file) => <State file={file} />),
    actions("actions", t("common.rowActions"), (file) =>
      isKept(file) ? (
        file.size_bytes > summary.max_export_bytes ? (
          <span className="dim">{t("outputs.tooLarge")}</span>
        ) : (
          <DownloadOutputs trialId={trial.id} paths={[file.path]} label={t("outputs.download")} isSubtle />
        )
      ) : null,
    ),
  ];
}

function State({ file }: { file: OutputFile }) {
  const { t } = useTranslation();
  if (file.state === "kept") return <>{t("outputs.kept")}</>;
  if (file.state === "link") return <>{t("outputs.link", { target: file.target })}</>;
  if (file.state === "growing")
    return (
      <Badge size="xs" variant="light">
        {t("outputs.growing")}
      </Badge>
    );
  return (
    <>
      <b>{t("outputs.notKept")}</b>
      {file.reason ? <span lang="en">: {file.reason}</span> : null}
    </>
  );
}
