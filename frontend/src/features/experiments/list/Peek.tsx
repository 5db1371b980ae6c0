import { ActionIcon, Button, Group, TextInput } from "@mantine/core";
import { IconPencil, IconX } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { useLiveQueries } from "../../../api/liveHooks";
import { experiment, type ExperimentDetail, me, type TrialDetail, wholeTrial } from "../../../api/queries";
import { KeyValues, Meter } from "../../../components/basics";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { NotesField } from "../../../common/experiments/Notes";
import { Markdown } from "../../../components/text/Markdown";
import { Message } from "../../../components/text/Message";
import { StateBadge } from "../../../components/StateBadge";
import { Ago, Elapsed } from "../../../components/Time";
import { LinkButton } from "../../../components/LinkButton";
import { mayChange } from "../../../lib/access";
import * as format from "../../../lib/format";
import { shownState, slotsText } from "../../../lib/held";
import { parseLabels } from "./bulk";
import css from "./table.module.css";
import { labelText } from "./tableColumns";
import layout from "../../../components/layout.module.css";

const METRICS = 14;

/** An experiment beside the table: what matters of it, without leaving the list. */
export function Peek({ id, onClose }: { id: number; onClose: () => void }) {
  const { t } = useTranslation();
  const query = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["experiment", id]);
  return (
    <aside
      className={css["peek"]}
      aria-label={t("table.peek.title")}
      data-testid="peek"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <QueryView query={query}>{(data) => <PeekBody key={data.id} data={data} onClose={onClose} />}</QueryView>
    </aside>
  );
}

function PeekBody({ data, onClose }: { data: ExperimentDetail; onClose: () => void }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [editing, setEditing] = useState(false);
  return (
    <>
      <div className={css["peekHead"]}>
        <h2>{data.name}</h2>
        {mayChange(user, data.owner) && !editing ? (
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={t("table.peek.edit")}
            onClick={() => setEditing(true)}
            data-testid="peek-edit"
          >
            <IconPencil size={15} />
          </ActionIcon>
        ) : null}
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={t("common.close")}
          onClick={onClose}
          data-testid="peek-close"
        >
          <IconX size={15} />
        </ActionIcon>
      </div>
      {editing ? <Edit data={data} onClose={() => setEditing(false)} /> : <PeekFacts data={data} />}
    </>
  );
}

/** What matters of it, and of its best or only trial. */
function PeekFacts({ data }: { data: ExperimentDetail }) {
  const { t } = useTranslation();
  const trialId = data.best_trial_id ?? data.only_trial_id;
  const best = useQuery({ ...wholeTrial(trialId ?? 0), enabled: trialId !== null }).data;
  const hparams = Object.entries(best?.hparams ?? {});
  return (
    <>
      <Group gap={8} mb={10}>
        <StateBadge state={shownState(data)} />
        <span className="dim num">#{data.id}</span>
        {data.only_trial_id ? (
          <LinkButton
            to="/trials/$trialId"
            params={{ trialId: String(data.only_trial_id) }}
            size="compact-xs"
            variant="default"
          >
            {t("table.peek.whole")}
          </LinkButton>
        ) : (
          <LinkButton
            to="/experiments/$experimentId"
            params={{ experimentId: String(data.id) }}
            size="compact-xs"
            variant="default"
          >
            {t("table.peek.whole")}
          </LinkButton>
        )}
      </Group>
      {data.reason ? (
        <p className={`${layout["text"]} ${layout["belowL"]} ${layout["anywhere"]}`}>
          <Message kind="terminations" code={data.termination} text={data.reason} />
        </p>
      ) : null}
      <KeyValues
        items={[
          [
            t("experiments.progress"),
            <Meter
              key="p"
              value={data.progress}
              label={t("experiments.progress")}
              tone={data.state === "COMPLETED" ? "ok" : data.state === "FAILED" ? "bad" : "run"}
            />,
          ],
          [
            t("experiments.best"),
            data.best_metric === null ? format.MISSING : `${format.num(data.best_metric)} ${data.metric_name ?? ""}`,
          ],
          [t("experiments.slots"), slotsText(t, data)],
          [t("experiments.project"), data.project],
          [t("experiments.owner"), data.owner ?? format.MISSING],
          [t("experiments.elapsed"), <Elapsed key="e" start={data.started_at} end={data.ended_at} />],
          [t("experiments.created"), <Ago key="c" at={data.created_at} />],
          ...(Object.keys(data.labels).length > 0
            ? ([
                [
                  t("experiments.labels"),
                  Object.entries(data.labels)
                    .map(([name, value]) => labelText(name, value))
                    .join(", "),
                ],
              ] as [string, string][])
            : []),
        ]}
      />
      {data.notes ? (
        <>
          <h3>{t("table.head.notes")}</h3>
          <Markdown text={data.notes} />
        </>
      ) : null}
      {hparams.length > 0 ? (
        <>
          <h3>{t("table.peek.hyper")}</h3>
          <KeyValues
            items={hparams.map(([name, value]) => [
              name,
              typeof value === "number" ? format.num(value) : typeof value === "string" ? value : JSON.stringify(value),
            ])}
          />
        </>
      ) : null}
      {best ? <PeekMetrics summary={best.summary} /> : null}
    </>
  );
}

function PeekMetrics({ summary }: { summary: TrialDetail["summary"] }) {
  const { t } = useTranslation();
  const metrics = Object.entries(summary);
  if (metrics.length === 0) return null;
  return (
    <>
      <h3>{t("table.peek.metrics")}</h3>
      <table className={css["values"]}>
        <thead>
          <tr>
            <th scope="col">{t("experiment.metric")}</th>
            <th scope="col">{t("table.peek.last")}</th>
            <th scope="col">{t("table.peek.least")}</th>
            <th scope="col">{t("table.peek.greatest")}</th>
          </tr>
        </thead>
        <tbody>
          {metrics.slice(0, METRICS).map(([name, entry]) => (
            <tr key={name}>
              <td>{name}</td>
              <td>{format.metric(name, entry.last as format.WireNumber)}</td>
              <td>{format.metric(name, entry.min)}</td>
              <td>{format.metric(name, entry.max)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {metrics.length > METRICS ? (
        <p className="dim">{t("table.peek.moreMetrics", { count: metrics.length - METRICS })}</p>
      ) : null}
    </>
  );
}

/** Name, labels and notes together. */
function Edit({ data, onClose }: { data: ExperimentDetail; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [name, setName] = useState(data.name);
  const [labels, setLabels] = useState(
    Object.entries(data.labels)
      .map(([key, value]) => labelText(key, value))
      .join(", "),
  );
  const [notes, setNotes] = useState(data.notes);
  const parsed = parseLabels(labels);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: data.id } },
          body: { name, notes, labels: parsed ?? {} },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await Promise.all([
        queryClient.invalidateQueries({ queryKey: ["experiments"] }),
        queryClient.invalidateQueries({ queryKey: ["experiment", data.id] }),
      ]);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (parsed !== null && name.trim() !== "") save.mutate();
  };
  return (
    <form onSubmit={submit} className={layout["stack"]} data-testid="peek-form">
      <TextInput
        label={t("experiments.name")}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        autoFocus
      />
      <TextInput
        label={t("experiments.labels")}
        description={t("bulk.labelHint")}
        value={labels}
        onChange={(event) => setLabels(event.currentTarget.value)}
        error={parsed === null ? t("table.peek.labelsWrong") : undefined}
      />
      <NotesField label={t("table.head.notes")} labelShown value={notes} onChange={setNotes} />
      {save.error ? <ErrorNotice error={save.error} /> : null}
      <Group>
        <Button type="submit" loading={save.isPending} disabled={parsed === null || name.trim() === ""}>
          {t("common.save")}
        </Button>
        <Button variant="default" onClick={onClose}>
          {t("common.cancel")}
        </Button>
      </Group>
    </form>
  );
}
