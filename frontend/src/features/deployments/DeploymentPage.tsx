import { Button, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { type Deployment, deployment as deploymentQuery, type Replica, type Revision } from "../../api/queries";
import { VersionLink } from "../../common/models/VersionLink";
import { Code, Empty, Notice, PageHead, Section, Stats } from "../../components/basics";
import { Confirm } from "../../components/dialogs/Confirm";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { FormDialog } from "../../components/dialogs/FormDialog";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { latency } from "./Deployments";
import { DeploymentState } from "./words";

const REPLICAS_MAX = 64;

/** A deployment: its replicas, its revisions, and what can be done with it. */
export function DeploymentPage() {
  const { name } = useParams({ from: "/app/deployments/$name" });
  const query = useQuery(deploymentQuery(name));
  useLiveQueries("deployments", ["deployments", name]);
  return (
    <QueryView query={query} isPage>
      {(found) => <Found deployment={found} />}
    </QueryView>
  );
}

type Dialog = "update" | "rollback" | "scale" | "stop" | null;

function Found({ deployment }: { deployment: Deployment }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState<Dialog>(null);
  const close = () => setOpen(null);
  const isRunning = deployment.state !== "stopping" && deployment.state !== "stopped";
  const dialogs = ["update", "rollback", "scale", "stop"] as const;
  return (
    <>
      <PageHead
        title={deployment.name}
        guide="guides/deployments"
        badge={<DeploymentState state={deployment.state} />}
        actions={
          deployment.may_change && isRunning
            ? dialogs.map((dialog) => (
                <Button
                  key={dialog}
                  variant="default"
                  size="xs"
                  color={dialog === "stop" ? "red" : undefined}
                  onClick={() => setOpen(dialog)}
                  data-testid={`deployment-${dialog}`}
                >
                  {t(`deployments.actions.${dialog}`)}
                </Button>
              ))
            : null
        }
      />
      {deployment.message ? <Notice tone="warn" title={deployment.message} /> : null}
      <Stats
        compact
        items={[
          {
            label: t("deployments.serves"),
            value: <VersionLink model={deployment.model} version={deployment.version} title={deployment.reference} />,
          },
          {
            label: t("deployments.replicas"),
            value: t("deployments.ready", { ready: deployment.num_ready, wanted: deployment.num_replicas }),
          },
          { label: t("deployments.rate"), value: format.num(deployment.requests_per_s) },
          { label: t("deployments.p50"), value: latency(deployment.latency_p50_ms) },
          { label: t("deployments.p95"), value: latency(deployment.latency_p95_ms) },
          { label: t("deployments.p99"), value: latency(deployment.latency_p99_ms) },
          { label: t("deployments.errors"), value: format.count(deployment.num_errors) },
          { label: t("deployments.owner"), value: deployment.owner ?? format.MISSING },
        ]}
      />
      {deployment.url === null ? null : (
        <Section title={t("deployments.endpoint")}>
          <Code text={`${deployment.url}/v2/models/${deployment.name}/infer`} />
        </Section>
      )}
      <Section title={t("deployments.replicas")}>
        <Replicas replicas={deployment.replicas} />
      </Section>
      <Section title={t("deployments.revisions")}>
        <Revisions revisions={deployment.revisions} />
      </Section>
      {open === "update" ? <Update deployment={deployment} onClose={close} /> : null}
      {open === "scale" ? <Scale deployment={deployment} onClose={close} /> : null}
      {open === "rollback" || open === "stop" ? <Ask deployment={deployment} what={open} onClose={close} /> : null}
    </>
  );
}

function Replicas({ replicas }: { replicas: Replica[] }) {
  const { t } = useTranslation();
  const columns: Column<Replica>[] = [
    lead("replica", t("deployments.replica"), (each) =>
      each.trial_id === null ? (
        format.MISSING
      ) : (
        <Link to="/trials/$trialId" params={{ trialId: String(each.trial_id) }}>
          {each.experiment_id}.1
        </Link>
      ),
    ),
    column("phase", t("deployments.state"), (each) => <DeploymentState state={each.phase} />),
    numeric("version", t("deployments.version"), (each) => each.version),
    column("node", t("deployments.node"), (each) => each.node ?? format.MISSING),
    numeric("rate", t("deployments.rate"), (each) => latency(each.requests_per_s)),
    numeric("p99", t("deployments.p99"), (each) => latency(each.latency_p99_ms)),
    numeric("errors", t("deployments.errors"), (each) =>
      t("deployments.of", { errors: each.num_errors, requests: each.num_requests }),
    ),
    column("reason", t("deployments.reason"), (each) => each.reason, { phone: false }),
    numeric("since", t("deployments.since"), (each) => <Ago at={each.phase_since} />),
  ];
  if (replicas.length === 0) return <Empty title={t("deployments.noReplicas")} />;
  return (
    <DataTable
      rows={replicas}
      rowKey={(each) => each.id}
      label={t("deployments.replicas")}
      testId="replicas"
      columns={columns}
    />
  );
}

function Revisions({ revisions }: { revisions: Revision[] }) {
  const { t } = useTranslation();
  const columns: Column<Revision>[] = [
    lead("number", t("deployments.revision"), (each) => each.number),
    column("serves", t("deployments.version"), (each) => (
      <VersionLink model={each.model} version={each.version} title={each.reference} />
    )),
    column("reference", t("deployments.reference"), (each) => each.reference),
    column("state", t("deployments.state"), (each) => <DeploymentState state={each.state} />),
    column("by", t("deployments.by"), (each) => each.created_by, { phone: false }),
    column("why", t("deployments.reason"), (each) => [each.reason, each.message].filter(Boolean).join(" · ")),
    numeric("at", t("deployments.made"), (each) => <Ago at={each.created_at} />),
  ];
  return (
    <DataTable
      rows={revisions}
      rowKey={(each) => each.number}
      label={t("deployments.revisions")}
      testId="revisions"
      columns={columns}
    />
  );
}

interface Props {
  deployment: Deployment;
  onClose: () => void;
}

/** After a change, everything that shows deployments is asked again. */
function useDone(onClose: () => void): () => Promise<void> {
  const queryClient = useQueryClient();
  return async () => {
    await queryClient.invalidateQueries({ queryKey: ["deployments"] });
    onClose();
  };
}

function Update({ deployment, onClose }: Props) {
  const { t } = useTranslation();
  const [model, setModel] = useState(deployment.reference);
  const [reason, setReason] = useState("");
  const update = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/deployments/{name}:update", {
          params: { path: { name: deployment.name } },
          body: { model, reason },
        }),
      ),
    onSuccess: useDone(onClose),
  });
  return (
    <FormDialog
      title={t("deployments.updateOf", { name: deployment.name })}
      ready={model !== ""}
      pending={update.isPending}
      error={update.error}
      testId="deployment-update-form"
      onSubmit={() => update.mutate()}
      onClose={onClose}
    >
      <TextInput
        label={t("deployments.reference")}
        description={t("deployments.referenceHint")}
        value={model}
        onChange={(event) => setModel(event.currentTarget.value.trim())}
        maxLength={120}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        data-testid="deployment-model"
      />
      <TextInput
        label={t("deployments.reason")}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={500}
      />
    </FormDialog>
  );
}

function Scale({ deployment, onClose }: Props) {
  const { t } = useTranslation();
  const [replicas, setReplicas] = useState(deployment.num_replicas);
  const scale = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/deployments/{name}:scale", {
          params: { path: { name: deployment.name } },
          body: { replicas },
        }),
      ),
    onSuccess: useDone(onClose),
  });
  return (
    <FormDialog
      title={t("deployments.scaleOf", { name: deployment.name })}
      pending={scale.isPending}
      error={scale.error}
      testId="deployment-scale-form"
      onSubmit={() => scale.mutate()}
      onClose={onClose}
    >
      <NumberInput
        label={t("deployments.replicas")}
        value={replicas}
        onChange={(value) => setReplicas(Number(value) || 1)}
        min={1}
        max={REPLICAS_MAX}
        allowDecimal={false}
        data-autofocus
      />
    </FormDialog>
  );
}

function Ask({ deployment, what, onClose }: Props & { what: "rollback" | "stop" }) {
  const { t } = useTranslation();
  const path = { name: deployment.name };
  const act = useMutation({
    mutationFn: () =>
      what === "stop"
        ? unwrap(client.POST("/api/v1/deployments/{name}:stop", { params: { path } }))
        : unwrap(client.POST("/api/v1/deployments/{name}:rollback", { params: { path }, body: { reason: "" } })),
    onSuccess: useDone(onClose),
  });
  return (
    <Confirm
      opened
      title={t(`deployments.ask.${what}`, { name: deployment.name })}
      action={t(`deployments.do.${what}`)}
      pending={act.isPending}
      error={act.error}
      onConfirm={() => act.mutate()}
      onClose={onClose}
    >
      {t(`deployments.askHint.${what}`)}
    </Confirm>
  );
}
