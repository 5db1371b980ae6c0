import { Button, Group, Modal, SegmentedControl, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { Panel, PanelKind } from "../../api/queries";
import { ErrorNotice } from "../../components/QueryView";
import { Markdown } from "../../components/text/Markdown";
import { FUNCTION_NAMES, type Problem, readExpression } from "../../lib/series/expression";
import css from "./panels.module.css";

const KINDS: readonly PanelKind[] = ["line", "bar", "scatter", "histogram", "table", "markdown", "images", "mark"];
/** As the server takes them. */
const MAX_EXPRESSIONS = 12;

/** Where a new panel may be kept. */
export interface Scope {
  experiment: number;
  /** Null while it is not known. */
  project: string | null;
}

interface Props {
  /** Null: a new one. */
  panel: Panel | null;
  scope: Scope;
  names: readonly string[];
  onClose: () => void;
}

/** Asks what a panel shows. */
export function PanelDialog({ panel, scope, names, onClose }: Props) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [title, setTitle] = useState(panel?.title ?? "");
  const [kind, setKind] = useState<PanelKind>(panel?.kind ?? "line");
  const [lines, setLines] = useState(panel?.expressions.join("\n") ?? "");
  const [x, setX] = useState(panel?.x ?? "");
  const [text, setText] = useState(panel?.text ?? "");
  const [where, setWhere] = useState<"experiment" | "project">("experiment");
  const expressions = lines
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const isMarkdown = kind === "markdown";
  const isMark = kind === "mark";
  const isExpression = !isMarkdown && !isMark && kind !== "images";
  const problems = isExpression ? problemsOf(kind === "scatter" ? [...expressions, x] : expressions, names) : [];
  const isTooMany = expressions.length > MAX_EXPRESSIONS;
  const isComplete = isMark
    ? /^\d{1,15}$/.test(x)
    : isMarkdown
      ? text.trim() !== ""
      : expressions.length > 0 && problems.length === 0 && !isTooMany;
  const name = title.trim() || (isMark ? "" : expressions.join(", ").slice(0, 200));
  const save = useMutation({
    mutationFn: () => {
      const body = {
        title: name,
        kind,
        expressions: isMarkdown || isMark ? [] : expressions,
        x: kind === "scatter" || isMark ? x : null,
        text,
      };
      if (panel)
        return unwrap(client.PATCH("/api/v1/panels/{panel_id}", { params: { path: { panel_id: panel.id } }, body }));
      const at = where === "project" ? { project: scope.project } : { experiment_id: scope.experiment };
      return unwrap(client.POST("/api/v1/panels", { body: { ...body, ...at } }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["panels"] });
      onClose();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isComplete && name !== "") save.mutate();
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={t(panel ? "panels.edit" : "panels.add")}
      size="lg"
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={submit} data-testid="panel-form">
        <Group align="flex-start" grow>
          <TextInput
            label={t("panels.title")}
            placeholder={isMarkdown ? undefined : name}
            value={title}
            maxLength={200}
            onChange={(event) => setTitle(event.currentTarget.value)}
            data-autofocus
          />
          <Select
            label={t("panels.kind")}
            allowDeselect={false}
            value={kind}
            onChange={(value) => setKind(value as PanelKind)}
            data={KINDS.map((value) => ({ value, label: t(`panels.kinds.${value}`) }))}
          />
        </Group>
        {isMark ? (
          <TextInput
            label={t("panels.step")}
            description={t("panels.stepHint")}
            placeholder="1200"
            inputMode="numeric"
            mt="sm"
            value={x}
            onChange={(event) => setX(event.currentTarget.value.trim())}
          />
        ) : isMarkdown ? (
          <TextFields text={text} onText={setText} />
        ) : (
          <LineFields kind={kind} lines={lines} onLines={setLines} x={x} onX={setX} names={names} problems={problems} />
        )}
        {isTooMany ? <p className={css["problems"]}>{t("panels.tooMany", { max: MAX_EXPRESSIONS })}</p> : null}
        {panel || scope.project === null ? null : (
          <SegmentedControl
            mt="md"
            aria-label={t("panels.where")}
            value={where}
            onChange={(value) => setWhere(value as "experiment" | "project")}
            data={[
              { value: "experiment", label: t("panels.onExperiment") },
              { value: "project", label: t("panels.onProject", { project: scope.project }) },
            ]}
          />
        )}
        {save.error ? <ErrorNotice error={save.error} /> : null}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button type="submit" loading={save.isPending} disabled={!isComplete || name === ""}>
            {t("common.save")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

interface Wrong {
  expression: string;
  problem: Problem;
}

const problemsOf = (expressions: readonly string[], names: readonly string[]): Wrong[] =>
  expressions.flatMap((expression) => {
    const { problem } = readExpression(expression, names);
    return problem ? [{ expression, problem }] : [];
  });

function LineFields({
  kind,
  lines,
  onLines,
  x,
  onX,
  names,
  problems,
}: {
  kind: PanelKind;
  lines: string;
  onLines: (lines: string) => void;
  x: string;
  onX: (x: string) => void;
  names: readonly string[];
  problems: readonly Wrong[];
}) {
  const { t } = useTranslation();
  const isImages = kind === "images";
  const add = (name: string | null): void => {
    if (name) onLines(lines.trim() === "" ? name : `${lines.replace(/\n+$/, "")}\n${name}`);
  };
  return (
    <>
      <Textarea
        label={t(isImages ? "panels.media" : "panels.expressions")}
        placeholder={isImages ? "samples" : "train/loss - val/loss"}
        autosize
        minRows={3}
        maxRows={10}
        mt="sm"
        value={lines}
        onChange={(event) => onLines(event.currentTarget.value)}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      {isImages ? null : (
        <>
          <p className={css["help"]}>{t("panels.help", { functions: FUNCTION_NAMES.join(", ") })}</p>
          <Select
            aria-label={t("panels.metric")}
            placeholder={t("panels.metric")}
            searchable
            limit={100}
            mt="xs"
            value={null}
            onChange={add}
            data={[...names]}
          />
        </>
      )}
      {kind === "scatter" ? (
        <TextInput
          label={t("panels.x")}
          placeholder="train/lr"
          mt="sm"
          value={x}
          onChange={(event) => onX(event.currentTarget.value)}
        />
      ) : null}
      <ul className={css["problems"]} aria-live="polite">
        {problems
          .filter(({ expression }) => expression !== "")
          .map(({ expression, problem }) => (
            <li key={expression}>
              <code>{expression}</code>:{" "}
              {t(`panels.problem.${problem.kind}`, { at: problem.at + 1, text: problem.text })}
            </li>
          ))}
      </ul>
    </>
  );
}

function TextFields({ text, onText }: { text: string; onText: (text: string) => void }) {
  const { t } = useTranslation();
  return (
    <>
      <Textarea
        label={t("panels.text")}
        autosize
        minRows={6}
        maxRows={14}
        mt="sm"
        maxLength={20_000}
        value={text}
        onChange={(event) => onText(event.currentTarget.value)}
      />
      {text.trim() === "" ? null : (
        <>
          <p className={css["help"]}>{t("panels.preview")}</p>
          <Markdown text={text} />
        </>
      )}
    </>
  );
}
