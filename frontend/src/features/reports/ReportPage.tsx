import { Badge, Button, Menu, TextInput } from "@mantine/core";
import { IconDots, IconDownload } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams, useRouter } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { report, type Report, type ReportBlock, reportContent } from "../../api/queries";
import { Empty, PageHead } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { LeaveQuestion } from "../../components/dialogs/LeaveQuestion";
import layout from "../../components/layout.module.css";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Stamp } from "../../components/Time";
import { url } from "../../lib/address";
import { BlockEditor } from "./BlockEditor";
import { Comments } from "./Comments";
import { LinksDialog } from "./LinksDialog";
import { ReportBlocks } from "./ReportBlocks";
import css from "./reports.module.css";

const FORMATS = ["md", "html", "latex", "csv"] as const;

/** One report: read, or written. */
export function ReportPage() {
  const { reportId } = useParams({ from: "/app/reports/$reportId" });
  const query = useQuery(report(Number(reportId)));
  const [isEdited, setIsEdited] = useState(false);
  return (
    <QueryView query={query} isPage>
      {(data) =>
        isEdited ? (
          <Editor key={data.id} start={data} onClose={() => setIsEdited(false)} />
        ) : (
          <Reader data={data} onEdit={() => setIsEdited(true)} />
        )
      }
    </QueryView>
  );
}

function Reader({ data, onEdit }: { data: Report; onEdit: () => void }) {
  const { t } = useTranslation();
  const router = useRouter();
  const queryClient = useQueryClient();
  const content = useQuery(reportContent(data));
  const [asked, setAsked] = useState<"delete" | "links" | null>(null);
  const params = { path: { report_id: data.id } };
  const isFrozen = data.frozen_at !== null;
  const freeze = useMutation({
    mutationFn: (wanted: boolean) =>
      wanted
        ? unwrap(client.POST("/api/v1/reports/{report_id}:freeze", { params }))
        : unwrap(client.POST("/api/v1/reports/{report_id}:unfreeze", { params })),
    onSuccess: (next) => queryClient.setQueryData(report(data.id).queryKey, next),
  });
  return (
    <div className={css["page"]}>
      <PageHead
        guide="guides/reports"
        title={data.title}
        badge={
          <Badge variant="default" data-testid="report-values">
            {t(isFrozen ? "reports.frozen" : "reports.live")}
          </Badge>
        }
        sub={
          <span>
            {data.project} · {data.owner ?? t("reports.nobody")} · {t("reports.valuesOf")}{" "}
            <Stamp at={content.data?.at ?? null} />
          </span>
        }
        actions={
          <>
            <Menu position="bottom-end">
              <Menu.Target>
                <Button variant="default" leftSection={<IconDownload size={15} aria-hidden />}>
                  {t("reports.export")}
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                {FORMATS.map((format) => (
                  <Menu.Item
                    key={format}
                    component="a"
                    href={url(`/api/v1/reports/${data.id}/export?format=${format}`)}
                    download
                  >
                    {t(`reports.formats.${format}`)}
                  </Menu.Item>
                ))}
                <Menu.Item onClick={() => window.print()}>{t("reports.print")}</Menu.Item>
              </Menu.Dropdown>
            </Menu>
            {data.may_change ? (
              <>
                <Button variant="default" loading={freeze.isPending} onClick={() => freeze.mutate(!isFrozen)}>
                  {t(isFrozen ? "reports.unfreeze" : "reports.freeze")}
                </Button>
                <Button onClick={onEdit} disabled={isFrozen} title={isFrozen ? t("reports.frozenHint") : undefined}>
                  {t("common.edit")}
                </Button>
              </>
            ) : null}
            {data.may_manage ? (
              <Menu position="bottom-end">
                <Menu.Target>
                  <Button variant="default" aria-label={t("common.actions")} data-testid="report-menu">
                    <IconDots size={15} aria-hidden />
                  </Button>
                </Menu.Target>
                <Menu.Dropdown>
                  {data.links_on ? <Menu.Item onClick={() => setAsked("links")}>{t("reports.share")}</Menu.Item> : null}
                  <Menu.Item color="red" onClick={() => setAsked("delete")}>
                    {t("reports.delete")}
                  </Menu.Item>
                </Menu.Dropdown>
              </Menu>
            ) : null}
          </>
        }
      />
      {freeze.error ? <ErrorNotice error={freeze.error} /> : null}
      <QueryView query={content}>
        {(shown) =>
          shown.blocks.length === 0 ? (
            <Empty title={t("reports.empty")}>{data.may_change ? t("reports.emptyHint") : null}</Empty>
          ) : (
            <ReportBlocks content={shown} />
          )
        }
      </QueryView>
      <Comments id={data.id} mayWrite={data.may_change} />
      {asked === "links" ? <LinksDialog id={data.id} onClose={() => setAsked(null)} /> : null}
      {asked === "delete" ? (
        <ConfirmAction
          title={t("reports.deleteTitle", { title: data.title })}
          action={t("reports.delete")}
          onClose={() => setAsked(null)}
          run={async () => {
            await unwrap(client.DELETE("/api/v1/reports/{report_id}", { params }));
            await router.navigate({ to: "/reports" });
          }}
        >
          {t("reports.deleteText")}
        </ConfirmAction>
      ) : null}
    </div>
  );
}

/** A block that is written, with a name of its own while it is moved. */
interface Draft {
  key: number;
  block: ReportBlock;
}

const KINDS = ["markdown", "table", "chart", "media"] as const;

const NO_RUNS = { experiments: [], trials: [], labels: [], only_completed: false };

function emptyBlock(kind: (typeof KINDS)[number], runs: typeof NO_RUNS): ReportBlock {
  switch (kind) {
    case "markdown":
      return { kind, text: "" };
    case "table":
      return { kind, title: "", runs, columns: [], group_by: [], headers: {}, baseline: null, decimals: null };
    case "chart":
      return {
        kind,
        title: "",
        runs,
        metrics: [],
        expressions: [],
        group_by: null,
        x: "step",
        log: false,
        smoothing: 0,
      };
    case "media":
      return { kind, title: "", runs, names: [], step: null };
  }
}

/** The runs of the last block that has any: most blocks of a report are about the same ones. */
const lastRuns = (drafts: readonly Draft[]): typeof NO_RUNS =>
  drafts.reduce((runs, { block }) => (block.kind === "markdown" ? runs : (block.runs as typeof NO_RUNS)), NO_RUNS);

function Editor({ start, onClose }: { start: Report; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [title, setTitle] = useState(start.title);
  const [drafts, setDrafts] = useState<Draft[]>(() => start.blocks.map((block, key) => ({ key, block })));
  const [nextKey, setNextKey] = useState(start.blocks.length);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/reports/{report_id}", {
          params: { path: { report_id: start.id } },
          body: { version: start.version, title: title.trim(), blocks },
        }),
      ),
    onSuccess: (next) => {
      queryClient.setQueryData(report(start.id).queryKey, next);
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      onClose();
    },
  });
  const blocks = drafts.map(({ block }) => block);
  const isChanged = title !== start.title || JSON.stringify(blocks) !== JSON.stringify(start.blocks);
  const change = (key: number, block: ReportBlock): void =>
    setDrafts((before) => before.map((one) => (one.key === key ? { key, block } : one)));
  const move = (at: number, by: number): void =>
    setDrafts((before) => {
      const next = before.filter((_, i) => i !== at);
      next.splice(at + by, 0, before[at] as Draft);
      return next;
    });
  const add = (kind: (typeof KINDS)[number]): void => {
    setDrafts((before) => [...before, { key: nextKey, block: emptyBlock(kind, lastRuns(before)) }]);
    setNextKey(nextKey + 1);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    save.mutate();
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- the keys of the fields inside
    <div className={`${css["page"]} ${css["editor"]}`} onKeyDown={onKey} data-testid="report-editor">
      <TextInput
        label={t("reports.title")}
        size="md"
        value={title}
        maxLength={200}
        onChange={(event) => setTitle(event.currentTarget.value)}
      />
      {drafts.map(({ key, block }, at) => (
        <BlockEditor
          key={key}
          no={at}
          project={start.project}
          block={block}
          onChange={(next) => change(key, next)}
          onUp={at === 0 ? null : () => move(at, -1)}
          onDown={at === drafts.length - 1 ? null : () => move(at, 1)}
          onRemove={() => setDrafts((before) => before.filter((one) => one.key !== key))}
        />
      ))}
      <div className={layout["buttons"]} role="group" aria-label={t("reports.add")}>
        {KINDS.map((kind) => (
          <Button key={kind} variant="default" size="xs" onClick={() => add(kind)} data-testid={`add-${kind}`}>
            {t(`reports.addKind.${kind}`)}
          </Button>
        ))}
      </div>
      {save.error ? <ErrorNotice error={save.error} /> : null}
      <LeaveQuestion isChanged={isChanged} />
      <div className={css["foot"]}>
        <Button loading={save.isPending} disabled={title.trim() === ""} onClick={() => save.mutate()}>
          {t("common.save")}
        </Button>
        <Button variant="default" onClick={onClose}>
          {t("common.cancel")}
        </Button>
        <span className="dim">{t("reports.saveKey")}</span>
      </div>
    </div>
  );
}
