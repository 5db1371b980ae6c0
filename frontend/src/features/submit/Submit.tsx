import { Button, Menu, SegmentedControl } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChevronDown, IconRocket } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Fragment, lazy, Suspense, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { SERVER } from "../../lib/address";
import { ApiError, client, type FieldError, type Schemas, unwrap } from "../../api/client";
import { documentSchema, experiment, type ExperimentDetail, me } from "../../api/queries";
import { Code, Notice, PageHead, Skeleton } from "../../components/basics";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { ErrorNotice } from "../../components/QueryView";
import { useTitles } from "../../lib/catalog";
import { asOverride, forkFrom, type Load, startOf } from "../../lib/forking";
import { useIdempotency } from "../../lib/idempotency";
import { readPref, writePref } from "../../lib/prefs";
import { asCli, asCurl } from "../../lib/text/yaml";
import { ForkBar } from "./ForkBar";
import { CodePanel } from "./code/CodePanel";
import { type CodeState, useCode } from "./code/useCode";
import { PlanPanel } from "./PlanPanel";
import { PreviewPane } from "./PreviewPane";
import type { SchemaNode } from "./schema";
import css from "./submit.module.css";
import { FIRST, groups, hasTitle, methodOf, type Template, TEMPLATES, templateOf, withSection } from "./templates";
import layout from "../../components/layout.module.css";

const Editor = lazy(() => import("./editor"));
const DocumentForm = lazy(async () => ({ default: (await import("./editor")).DocumentForm }));
const TimesForm = lazy(async () => ({ default: (await import("../../common/schedules/TimesForm")).TimesForm }));
/** Whether the document starts a script, or names functions of its code. */
const usesCode = (document: string): boolean => /(^|[\s{,])["']?(entrypoint|path)["']?\s*:/m.test(document);
const DRAFT = "draft";
const NO_ERRORS: FieldError[] = [];
const NO_OVERRIDES: string[] = [];

export function Submit() {
  const { t } = useTranslation();
  const { from, start: startText, template, set } = useSearch({ from: "/app/submit" });
  const code = useCode();
  const { source, document, change, pick } = useDraft(from, template, set, code);
  const [shape, setShape] = useState<Shape>("yaml");
  const [focus, setFocus] = useState<Focus | null>(null);
  const [load, setLoad] = useState<Load>("all");
  const start = startOf(startText);
  const forked = from === undefined ? undefined : source.data;
  const mayNot = useQuery(me).data?.role === "viewer";
  const isReady = !mayNot && (from === undefined || source.data !== undefined);
  const { settled, overrides, preview, submit, body } = useSubmission(document, forked, {
    start,
    load,
    own: forked && set ? [set] : NO_OVERRIDES,
    code: usesCode(document) ? code.code : null,
    isReady,
  });
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
          <>
            {forked ? null : <ScheduleButton isReady={!mayNot && data?.valid === true && !behind} body={body} />}
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
          </>
        }
      />
      {mayNot ? <Notice title={t("submit.mayNot")} /> : null}
      {submit.error && submitErrors.length === 0 ? <ErrorNotice error={submit.error} /> : null}
      {source.error ? <ErrorNotice error={source.error} onRetry={source.refetch} /> : null}
      {forked ? <ForkBar experiment={forked} set={set} start={start} load={load} onLoad={setLoad} /> : null}
      <div className={css["cols"]}>
        <DocumentPane
          document={document}
          shape={shape}
          onShape={forked ? null : setShape}
          isInvalid={data !== undefined && !data.valid}
          errors={errors}
          focus={focus}
          onChange={change}
          onPick={pick}
          onSubmit={send}
          code={forked ? null : code}
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
function useDraft(from: number | undefined, template: string | undefined, set: string | undefined, code: CodeState) {
  const source = useQuery({ ...experiment(from ?? 0), enabled: from !== undefined });
  const [document, setDocument] = useState(
    () =>
      withSection(templateOf(template)?.document ?? "", set) ||
      (readPref(DRAFT) ?? TEMPLATES.get(FIRST)?.document ?? ""),
  );
  const { take, clear } = code;
  const wanted = useRef(templateOf(template)?.files ?? []);
  useEffect(() => {
    if (wanted.current.length > 0) void take(wanted.current, template ?? "");
    wanted.current = [];
  }, [take, template]);
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
  const pick = (example: Template): void => {
    change(example.document);
    if (example.files.length > 0) void take(example.files, example.id);
    else clear();
  };
  return { source, document, change, pick };
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
  onPick,
  onSubmit,
  code,
}: {
  document: string;
  shape: Shape;
  onShape: ToolbarProps["onShape"];
  isInvalid: boolean;
  errors: FieldError[];
  focus: Focus | null;
  onChange: (document: string) => void;
  onPick: (example: Template) => void;
  onSubmit: () => void;
  /** Null: the code of what is forked is used. */
  code: CodeState | null;
}) {
  const { t } = useTranslation();
  const schema = useQuery(documentSchema).data as SchemaNode | undefined;
  return (
    <div>
      <Toolbar shape={shape} onShape={onShape} onPick={onPick} />
      {shape === "yaml" ? (
        <>
          <Suspense fallback={null}>
            <DocumentForm document={document} schema={schema} errors={errors} onChange={onChange} />
          </Suspense>
          <div className={css["editor"]} data-invalid={isInvalid || undefined}>
            <Suspense fallback={<Skeleton rows={10} />}>
              <Editor
                value={document}
                label={t("submit.editor")}
                schema={schema}
                errors={errors}
                focus={focus}
                onChange={onChange}
                onSubmit={onSubmit}
              />
            </Suspense>
          </div>
          <p className={`dim ${layout["text"]} ${layout["aboveS"]} ${layout["small"]}`}>{t("submit.draft")}</p>
          {code && (usesCode(document) || code.code !== null) ? (
            <CodePanel state={code} isUsed={usesCode(document)} />
          ) : null}
        </>
      ) : (
        <Code
          text={shape === "cli" ? asCli(document, SERVER) : asCurl(document, SERVER)}
          wrap={shape === "curl"}
          testId="submit-as"
        />
      )}
    </div>
  );
}

interface Submission {
  start: ReturnType<typeof startOf>;
  load: Load;
  /** Overrides beside those of what is forked. */
  own: string[];
  /** Code that was chosen and sent; null: none. */
  code: CodeState["code"];
  isReady: boolean;
}

/** What the server says of a document once it rests, and the way to submit it; `forked`: what it is forked from. */
function useSubmission(
  document: string,
  forked: ExperimentDetail | undefined,
  { start, load, own, code, isReady }: Submission,
) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [settled] = useDebouncedValue(document, 400);
  const origin = forked ? forkFrom(forked.id, start, load) : null;
  const blob = forked?.blob_sha256 ?? code?.sha256 ?? null;
  const leftOut = blob !== null && blob === code?.sha256 ? code.leftOutNames : undefined;
  const kept = [...(forked?.overrides ?? []), ...own];
  const overrides = [...kept, ...asOverride(origin)];
  const body = (text: string) => ({ document: text, blob_sha256: blob ?? undefined, overrides, left_out: leftOut });
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
      const header = { "idempotency-key": keyOf([document, overrides, forked?.id, blob]) };
      if (!forked) return unwrap(client.POST("/api/v1/experiments", { params: { header }, body: body(document) }));
      const fork = { document, overrides: kept, from: origin };
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
  return { settled, overrides, preview, submit, body: body(document) };
}

/** Asks when it is to be submitted again and again. */
function ScheduleButton({ isReady, body }: { isReady: boolean; body: Schemas["ExperimentIn"] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [opened, setOpened] = useState(false);
  return (
    <>
      <Button variant="default" size="sm" disabled={!isReady} onClick={() => setOpened(true)} data-testid="schedule">
        {t("schedules.schedule")}
      </Button>
      {opened ? (
        <Suspense fallback={null}>
          <TimesForm
            title={t("schedules.scheduleTitle")}
            onClose={() => setOpened(false)}
            save={async (times) => {
              await unwrap(client.POST("/api/v1/schedules", { body: { ...times, experiment: body } }));
              await navigate({ to: "/schedules" });
            }}
          />
        </Suspense>
      ) : null}
    </>
  );
}

interface ToolbarProps {
  shape: Shape;
  /** Null: a command would not carry over the lineage and the code of what is forked. */
  onShape: ((shape: Shape) => void) | null;
  onPick: (example: Template) => void;
}

function Toolbar({ shape, onShape, onPick }: ToolbarProps) {
  const { t } = useTranslation();
  const { method } = useTitles();
  return (
    <div className={css["bar"]}>
      <Menu position="bottom-start">
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} />} data-testid="templates">
            {t("submit.template")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown className={css["templates"]}>
          {groups.map(({ id: group, templates }) => (
            <Fragment key={group}>
              <Menu.Label>{t(`submit.groups.${group}`)}</Menu.Label>
              {templates.map((id) => (
                <Menu.Item
                  key={id}
                  onClick={() => {
                    const example = templateOf(id);
                    if (example) onPick(example);
                  }}
                  data-testid={`template-${id}`}
                >
                  {hasTitle(id) ? t(`submit.templates.${id}`) : method(methodOf(id))}
                </Menu.Item>
              ))}
            </Fragment>
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
