import { Button, Menu, SegmentedControl } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChevronDown, IconRocket } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { ApiError, client, type FieldError, unwrap } from "../../api/client";
import { experiment, type ExperimentDetail, me, type Preview } from "../../api/queries";
import { Code, KeyValues, Notice, PageHead, Section, Skeleton } from "../../components/basics";
import { DataTable } from "../../components/DataTable";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { ErrorNotice } from "../../components/QueryView";
import { FieldMessage, Reason } from "../../components/Message";
import * as format from "../../lib/format";
import { asOverride, forkFrom, type Load, startOf } from "../../lib/forking";
import { lengthText } from "../../lib/lengthText";
import { useIdempotency } from "../../lib/idempotency";
import { readPref, writePref } from "../../lib/prefs";
import { asCli, asCurl } from "../../lib/yaml";
import { ForkBar } from "./ForkBar";
import { PlanPanel } from "./PlanPanel";
import css from "./submit.module.css";
import { isTemplate, TEMPLATES, type TemplateName } from "./templates";
import layout from "../../components/layout.module.css";

const Editor = lazy(() => import("./editor"));
const DRAFT = "draft";
const NO_ERRORS: FieldError[] = [];

export function Submit() {
  const { t } = useTranslation();
  const { from, start: startText, template } = useSearch({ from: "/app/submit" });
  const { source, document, change } = useDraft(from, template);
  const [shape, setShape] = useState<Shape>("yaml");
  const [focus, setFocus] = useState<Focus | null>(null);
  const [load, setLoad] = useState<Load>("all");
  const start = startOf(startText);
  const forked = from === undefined ? undefined : source.data;
  const mayNot = useQuery(me).data?.role === "viewer";
  const isReady = !mayNot && (from === undefined || source.data !== undefined);
  const { settled, overrides, preview, submit } = useSubmission(document, forked, { start, load }, isReady);
  const data = preview.data;
  const behind = settled !== document || preview.isPlaceholderData;
  const submitErrors = submit.error instanceof ApiError ? submit.error.fields : NO_ERRORS;
  const errors = data && !data.valid ? data.errors : submitErrors;
  const send = (): void => {
    if (!submit.isPending && !mayNot) submit.mutate();
  };
  return (
    <>
      <PageHead
        guide="guides/experiments"
        title={forked ? t("fork.title", { name: forked.name }) : t("submit.title")}
        sub={
          forked ? (
            <Link to="/experiments/$experimentId" params={{ experimentId: String(forked.id) }}>
              {t("experiment.ref", { id: forked.id })}
            </Link>
          ) : null
        }
        actions={
          <Button
            size="sm"
            leftSection={<IconRocket size={15} />}
            onClick={send}
            loading={submit.isPending}
            disabled={mayNot || document.trim() === "" || (data !== undefined && !data.valid && !behind)}
            data-testid="submit"
          >
            {t("submit.button")}
          </Button>
        }
      />
      {mayNot ? <Notice title={t("submit.mayNot")} /> : null}
      {submit.error && submitErrors.length === 0 ? <ErrorNotice error={submit.error} /> : null}
      {source.error ? <ErrorNotice error={source.error} onRetry={source.refetch} /> : null}
      {forked ? <ForkBar experiment={forked} start={start} load={load} onLoad={setLoad} /> : null}
      <div className={css["cols"]}>
        <DocumentPane
          document={document}
          shape={shape}
          onShape={forked ? null : setShape}
          isInvalid={data !== undefined && !data.valid}
          errors={errors}
          focus={focus}
          onChange={change}
          onSubmit={send}
        />
        <div
          className={behind ? css["waiting"] : undefined}
          aria-busy={behind}
          aria-live="polite"
          data-testid="preview"
          data-valid={data === undefined || behind ? undefined : data.valid}
        >
          <ErrorBoundary resetKey={settled}>
            {preview.error && !data ? <ErrorNotice error={preview.error} onRetry={preview.refetch} /> : null}
            {data ? (
              <PreviewPane
                preview={data}
                errors={errors}
                takes={
                  <PlanPanel
                    document={settled}
                    overrides={overrides}
                    config={data.config}
                    behind={behind}
                    onDocument={change}
                  />
                }
                onError={(path) => {
                  if (path === "") return; // it is about the whole document
                  setShape("yaml");
                  setFocus({ path, nonce: Date.now() });
                }}
              />
            ) : preview.isPending && !mayNot && document.trim() !== "" ? (
              <Skeleton rows={6} />
            ) : null}
          </ErrorBoundary>
        </div>
      </div>
    </>
  );
}

type Shape = "yaml" | "cli" | "curl";

interface Focus {
  path: string;
  nonce: number;
}

/** The document that is edited: what is forked, the template that was asked for, or the last draft. */
function useDraft(from: number | undefined, template: string | undefined) {
  const source = useQuery({ ...experiment(from ?? 0), enabled: from !== undefined });
  const [document, setDocument] = useState(
    () => (isTemplate(template) ? TEMPLATES[template] : (readPref(DRAFT) ?? TEMPLATES.ddp)) as string,
  );
  const filled = useRef<number | undefined>(undefined);
  useEffect(() => {
    if (source.data && filled.current !== source.data.id) {
      filled.current = source.data.id;
      setDocument(source.data.document);
    }
  }, [source.data]);

  const change = (text: string): void => {
    setDocument(text);
    writePref(DRAFT, text);
  };
  return { source, document, change };
}

/** The document, to be edited, or as a command. */
function DocumentPane({
  document,
  shape,
  onShape,
  isInvalid,
  errors,
  focus,
  onChange,
  onSubmit,
}: {
  document: string;
  shape: Shape;
  onShape: ToolbarProps["onShape"];
  isInvalid: boolean;
  errors: FieldError[];
  focus: Focus | null;
  onChange: (document: string) => void;
  onSubmit: () => void;
}) {
  const { t } = useTranslation();
  return (
    <div>
      <Toolbar shape={shape} onShape={onShape} onPick={(name) => onChange(TEMPLATES[name])} />
      {shape === "yaml" ? (
        <>
          <div className={css["editor"]} data-invalid={isInvalid || undefined}>
            <Suspense fallback={<Skeleton rows={10} />}>
              <Editor
                value={document}
                label={t("submit.editor")}
                errors={errors}
                focus={focus}
                onChange={onChange}
                onSubmit={onSubmit}
              />
            </Suspense>
          </div>
          <p className={`dim ${layout["text"]} ${layout["aboveS"]} ${layout["small"]}`}>{t("submit.draft")}</p>
        </>
      ) : (
        <Code
          text={shape === "cli" ? asCli(document, location.origin) : asCurl(document, location.origin)}
          wrap={shape === "curl"}
          testId="submit-as"
        />
      )}
    </div>
  );
}

/** What the server says of a document once it rests, and the way to submit it; `forked`: what it is forked from. */
function useSubmission(
  document: string,
  forked: ExperimentDetail | undefined,
  { start, load }: { start: ReturnType<typeof startOf>; load: Load },
  isReady: boolean,
) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [settled] = useDebouncedValue(document, 400);
  const origin = forked ? forkFrom(forked.id, start, load) : null;
  const blob = forked?.blob_sha256 ?? null;
  const overrides = [...(forked?.overrides ?? []), ...asOverride(origin)];
  const body = (text: string) => ({ document: text, blob_sha256: blob ?? undefined, overrides });
  const preview = useQuery({
    queryKey: ["preview", settled, blob, overrides],
    queryFn: ({ signal }) => unwrap(client.POST("/api/v1/experiments:preview", { body: body(settled), signal })),
    enabled: isReady && settled.trim() !== "",
    placeholderData: (previous) => previous,
    staleTime: 5000,
    refetchInterval: 10_000, // "fits now" changes with the cluster
  });
  const keyOf = useIdempotency();
  const submit = useMutation({
    mutationFn: () => {
      const header = { "idempotency-key": keyOf([document, overrides, forked?.id]) };
      if (!forked) return unwrap(client.POST("/api/v1/experiments", { params: { header }, body: body(document) }));
      const fork = { document, overrides: forked.overrides, from: origin };
      return unwrap(
        client.POST("/api/v1/experiments/{experiment_id}:fork", {
          params: { path: { experiment_id: forked.id }, header },
          body: fork,
        }),
      );
    },
    onSuccess: async (created) => {
      writePref(DRAFT, null);
      await queryClient.invalidateQueries({ queryKey: ["experiments"] });
      if (created.only_trial_id !== null)
        await navigate({ to: "/trials/$trialId", params: { trialId: String(created.only_trial_id) } });
      else await navigate({ to: "/experiments/$experimentId", params: { experimentId: String(created.id) } });
    },
  });
  return { settled, overrides, preview, submit };
}

interface ToolbarProps {
  shape: Shape;
  /** Null: a command would not carry over the lineage and the code of what is forked. */
  onShape: ((shape: Shape) => void) | null;
  onPick: (name: TemplateName) => void;
}

function Toolbar({ shape, onShape, onPick }: ToolbarProps) {
  const { t } = useTranslation();
  return (
    <div className={css["bar"]}>
      <Menu>
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} />} data-testid="templates">
            {t("submit.template")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {(Object.keys(TEMPLATES) as TemplateName[]).map((name) => (
            <Menu.Item key={name} onClick={() => onPick(name)} data-testid={`template-${name}`}>
              {t(`submit.templates.${name}`)}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {onShape ? (
        <SegmentedControl
          aria-label={t("submit.shape")}
          value={shape}
          onChange={onShape}
          data={[
            { value: "yaml", label: "YAML" },
            { value: "cli", label: t("submit.asCli") },
            { value: "curl", label: t("submit.asCurl") },
          ]}
        />
      ) : null}
    </div>
  );
}

const show = (value: unknown): string =>
  typeof value === "number" ? format.num(value) : typeof value === "string" ? value : JSON.stringify(value);

/** "epochs" or "steps": what the lengths of an asha search are in. */
function rungUnit(config: Preview["config"]): string {
  const search = config?.["search"] as { max_length?: Record<string, unknown> | null } | undefined;
  return Object.entries(search?.max_length ?? {}).find(([, value]) => value !== null)?.[0] ?? "";
}

/** How many trials reach which length. */
function RungPlan({ rungs, unit }: { rungs: Preview["rungs"]; unit: string }) {
  const { t } = useTranslation();
  const brackets = new Set(rungs.map((rung) => rung["bracket"])).size;
  return (
    <ul className={layout["bare"]} data-testid="rung-plan">
      {rungs.map((rung) => (
        <li key={`${show(rung["bracket"])}:${show(rung["units"])}`}>
          {brackets > 1
            ? `${t("search.bracketNo", {
                no: Number(rung["bracket"]) + 1,
                count: rungs.filter((other) => other["bracket"] === rung["bracket"]).length,
              })} · `
            : ""}
          {t("submit.rung", { count: Number(rung["max_trials"]), length: lengthText(t, Number(rung["units"]), unit) })}
        </li>
      ))}
    </ul>
  );
}

/** What a whole search is expected to take. */
function costRows(t: TFunction, cost: NonNullable<Preview["search_cost"]>): [string, React.ReactNode][] {
  const spared = 1 - cost.total_units / cost.full_units;
  const rows: [string, React.ReactNode][] = [
    [
      t("submit.training"),
      `${lengthText(t, cost.total_units, cost.unit)}${spared > 0 ? ` · ${t("submit.spared", { share: format.pct(spared) })}` : ""}`,
    ],
  ];
  if (cost.slot_hours === null) return [...rows, [t("submit.slotHours"), t("submit.noUnitTime")]];
  const from =
    cost.unit_s_from === "search.unit_s"
      ? t("submit.stated")
      : t("submit.measured", { where: cost.unit_s_from.replace(/^experiment /, "#") });
  rows.push([t("submit.slotHours"), `${format.num(cost.slot_hours)} (${from})`]);
  if (cost.cost !== null) rows.push([t("submit.cost"), `${format.num(cost.cost)} ${cost.currency}`]);
  if (cost.duration_s !== null) rows.push([t("submit.duration"), format.duration(cost.duration_s)]);
  if (cost.within_budget === false) rows.push([t("submit.budget"), t("submit.overBudget")]);
  return rows;
}

/** Errors or warnings of a document, each with the path it is about. */
function Remarks({
  remarks,
  testId,
  onPath,
}: {
  remarks: FieldError[];
  testId: string;
  onPath: (path: string) => void;
}) {
  const { t } = useTranslation();
  return (
    <ul className={css["errors"]} data-testid={testId}>
      {remarks.map((remark) => (
        <li key={`${remark.path}:${remark.message}`}>
          <button type="button" onClick={() => onPath(remark.path)}>
            {remark.path || t("submit.documentItself")}
          </button>
          <div>
            <FieldMessage error={remark} />
          </div>
        </li>
      ))}
    </ul>
  );
}

function PreviewPane({
  preview,
  errors,
  takes,
  onError,
}: {
  preview: Preview;
  errors: FieldError[];
  takes: React.ReactNode;
  onError: (path: string) => void;
}) {
  const { t } = useTranslation();
  const names = [...new Set(preview.sampled_trials.flatMap((trial) => Object.keys(trial.hparams)))];
  return (
    <>
      {errors.length > 0 ? (
        <Section title={t("submit.errors", { count: errors.length })}>
          <Remarks remarks={errors} testId="errors" onPath={onError} />
        </Section>
      ) : null}
      {preview.valid ? (
        <>
          {preview.warnings.length > 0 ? (
            <Section title={t("submit.warnings", { count: preview.warnings.length })}>
              <Remarks remarks={preview.warnings} testId="warnings" onPath={onError} />
            </Section>
          ) : null}
          <div data-testid="fits">
            <Notice
              tone={preview.fits_now ? "ok" : preview.is_impossible ? "warn" : "run"}
              title={t(preview.fits_now ? "submit.fits" : preview.is_impossible ? "submit.impossible" : "submit.waits")}
            >
              <Reason text={preview.fit_reason} parts={preview.fit_parts} />
            </Notice>
          </div>
          <Section title={t("submit.plan")}>
            <KeyValues
              items={[
                [
                  t("experiments.trials"),
                  preview.num_trials === null
                    ? format.MISSING
                    : t(preview.num_trials_is_upper_bound ? "submit.atMost" : "submit.exactly", {
                        count: preview.num_trials,
                      }),
                ],
                ...(preview.concurrent !== null && preview.num_trials !== 1
                  ? ([
                      [
                        t("submit.atOnce"),
                        preview.concurrent_from === "search.concurrent"
                          ? format.count(preview.concurrent)
                          : t("submit.byRoom", { count: preview.concurrent }),
                      ],
                    ] as [string, React.ReactNode][])
                  : []),
                ...(preview.rungs.length > 0
                  ? ([
                      [
                        t("search.rungs"),
                        <RungPlan key="rungs" rungs={preview.rungs} unit={rungUnit(preview.config)} />,
                      ],
                    ] as [string, React.ReactNode][])
                  : []),
                ...(preview.perturbed.length > 0
                  ? ([[t("submit.perturbed"), preview.perturbed.join(", ")]] as [string, React.ReactNode][])
                  : []),
                ...(preview.copied.length > 0
                  ? ([[t("submit.copied"), preview.copied.join(", ")]] as [string, React.ReactNode][])
                  : []),
                ...(preview.search_cost ? costRows(t, preview.search_cost) : []),
              ]}
            />
          </Section>
          {takes}
          {preview.plan.length > 0 ? (
            <Section title={t("submit.commands")}>
              {preview.plan.map((node) => (
                <div key={node.node_name} className={layout["belowL"]}>
                  <div className={`dim ${layout["belowXs"]}`}>
                    {t("submit.onNode", { node: node.node_name, count: node.num_slots })}
                  </div>
                  <Code text={node.command.join(" ")} wrap />
                </div>
              ))}
            </Section>
          ) : null}
          {names.length > 0 ? (
            <Section title={t("submit.sampled", { count: preview.sampled_trials.length })}>
              <DataTable
                rows={preview.sampled_trials.map((trial, i) => ({ ...trial, no: i + 1 }))}
                rowKey={(row) => row.no}
                label={t("experiments.trials")}
                cards={false}
                columns={[
                  { id: "no", header: "#", align: "right", cell: (row) => row.no },
                  ...names.map((name) => ({
                    id: name,
                    header: name,
                    align: "right" as const,
                    cell: (row: { hparams: Record<string, unknown> }) => show(row.hparams[name]),
                  })),
                ]}
              />
            </Section>
          ) : null}
          {preview.config ? (
            <Section title={t("trial.resolved")} note={t("submit.defaults")}>
              <Code text={JSON.stringify(preview.config, null, 2)} />
            </Section>
          ) : null}
        </>
      ) : null}
    </>
  );
}
