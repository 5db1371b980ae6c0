import { Button, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { type Diagnosis, me, trial, trialDiagnoses, type TrialDetail } from "../../api/queries";
import { Empty, Lines, Meter, Notice, PageHead, Section } from "../../components/basics";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Stamp } from "../../components/Time";
import { isSingle } from "../../lib/catalog";
import * as format from "../../lib/format";
import { AdviceList } from "./AdviceList";
import { CancelDialog } from "./CancelDialog";
import { MeasuredTable, SharesTable } from "./DiagnosisTables";
import { interval, probeName, probesOver, verdictTitle } from "./words";
import layout from "../../components/layout.module.css";

/** What a trial is bound by, with the evidence, the advice and what came of it. */
export function DiagnosisPage() {
  const { trialId } = useParams({ from: "/app/trials/$trialId/diagnosis" });
  const id = Number(trialId);
  const whole = useQuery(trial(id));
  useLiveQueries(`trial:${id}`, ["trial-diagnoses", id]);
  return (
    <QueryView query={whole} isPage>
      {(data) => <OfTrial trial={data} key={data.id} />}
    </QueryView>
  );
}

function OfTrial({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const all = useQuery(trialDiagnoses(data.id));
  const chosen = useSearch({ from: "/app/trials/$trialId/diagnosis" }).diagnosis;
  const found = all.data?.find((one) => one.id === chosen) ?? all.data?.[0];
  const name = isSingle(data) ? data.experiment_name : `${data.experiment_name} · ${data.no}`;
  return (
    <>
      <PageHead
        guide="guides/diagnose"
        title={t("diagnosis.title", { name })}
        actions={
          <Actions
            trial={data}
            running={all.data?.find((one) => one.state === "running")}
            first={all.data?.length === 0}
          />
        }
        sub={
          <>
            <span>
              <Link to="/trials/$trialId" params={{ trialId: String(data.id) }} search={{ tab: "performance" }}>
                {name}
              </Link>
            </span>
            {found ? (
              <>
                <span>{t(`diagnosis.state.${found.state}`)}</span>
                <span>{t("diagnosis.by", { who: found.created_by })}</span>
                <Stamp at={found.created_at} />
              </>
            ) : null}
          </>
        }
      />
      <QueryView query={all}>
        {(list) =>
          found ? (
            <>
              {list.length > 1 ? <Earlier list={list} shown={found.id} /> : null}
              <View found={found} />
            </>
          ) : (
            <Empty title={t("diagnosis.none")}>
              {data.config["trainer"] ? t("diagnosis.what") : t("diagnosis.observedWhat")}
            </Empty>
          )
        }
      </QueryView>
    </>
  );
}

function Actions({
  trial: data,
  running,
  first,
}: {
  trial: TrialDetail;
  running: Diagnosis | undefined;
  first: boolean;
}) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const navigate = useNavigate({ from: "/trials/$trialId/diagnosis" });
  const [isAsked, setAsked] = useState(false);
  const refresh = async (): Promise<void> => {
    await queryClient.invalidateQueries({ queryKey: ["trial-diagnoses", data.id] });
    await navigate({ search: {}, replace: true });
  };
  const begin = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/trials/{trial_id}/diagnoses", {
          params: { path: { trial_id: data.id } },
          body: { repeats: null, steps: null },
        }),
      ),
    onSuccess: refresh,
  });
  if (user?.role !== "member" && user?.role !== "admin") return null;
  return (
    <>
      {running ? (
        <Button color="red" variant="light" onClick={() => setAsked(true)} data-testid="diagnosis-cancel">
          {t("diagnosis.cancel")}
        </Button>
      ) : (
        <Button
          variant={first ? "filled" : "default"}
          loading={begin.isPending}
          onClick={() => begin.mutate()}
          data-testid="diagnosis-begin"
        >
          {first ? t("diagnosis.run") : t("diagnosis.again")}
        </Button>
      )}
      {begin.error ? <ErrorNotice error={begin.error} /> : null}
      {isAsked && running ? (
        <CancelDialog
          diagnosis={running}
          onCanceled={() => navigate({ search: {}, replace: true })}
          onClose={() => setAsked(false)}
        />
      ) : null}
    </>
  );
}

function Earlier({ list, shown }: { list: Diagnosis[]; shown: number }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/trials/$trialId/diagnosis" });
  const result = (one: Diagnosis): string =>
    one.verdict === null ? t(`diagnosis.state.${one.state}`) : verdictTitle(t, one);
  const label = (one: Diagnosis): string => `${one.id}: ${result(one)}`;
  return (
    <Select
      aria-label={t("diagnosis.earlier")}
      size="xs"
      w={320}
      mb="sm"
      allowDeselect={false}
      value={String(shown)}
      onChange={(id) => void navigate({ search: { diagnosis: Number(id) }, replace: true })}
      data={list.map((one) => ({ value: String(one.id), label: label(one) }))}
    />
  );
}

function View({ found }: { found: Diagnosis }) {
  const { t } = useTranslation();
  return (
    <>
      <Verdict found={found} />
      {found.method === "observed" ? <p className="dim">{t("diagnosis.observed")}</p> : null}
      {Object.keys(found.shares).length > 0 ? (
        <Section title={t("diagnosis.shares")} note={t("diagnosis.sharesNote")}>
          <SharesTable shares={found.shares} />
          {found.efficiency ? <p>{t("diagnosis.efficiency", interval(found.efficiency))}</p> : null}
        </Section>
      ) : null}
      {found.state === "complete" ? (
        <Section title={t("diagnosis.advice")}>
          <AdviceList diagnosis={found} />
        </Section>
      ) : null}
      {found.method === "probes" ? (
        <Section
          title={t("diagnosis.evidence")}
          note={found.spread === null ? null : t("diagnosis.evidenceNote", { spread: format.pct(found.spread) })}
        >
          <MeasuredTable diagnosis={found} />
        </Section>
      ) : null}
      {found.left_out.length > 0 ? (
        <Section title={t("diagnosis.leftOut")}>
          <Lines items={found.left_out.map((one) => `${probeName(t, one.probe)}: ${one.reason}`)} />
        </Section>
      ) : null}
    </>
  );
}

function Verdict({ found }: { found: Diagnosis }) {
  const { t } = useTranslation();
  if (found.state === "running") return <Running found={found} />;
  if (found.verdict === null) return <Notice tone="warn" title={t("diagnosis.canceled")} />;
  const share = found.shares[found.verdict];
  const isClear = found.verdict !== "inconclusive";
  return (
    <div data-testid="verdict">
      <Notice tone={found.verdict === "compute" ? "ok" : "warn"} title={verdictTitle(t, found)}>
        {isClear && share ? t("diagnosis.costs", interval(share)) : null}{" "}
        {found.verdict === "compute" ? t("diagnosis.nothingElse") : null}
        {found.verdict === "straggler" && found.culprit_part ? t("diagnosis.late", { part: found.culprit_part }) : null}
        {isClear ? null : found.reason}
      </Notice>
    </div>
  );
}

function Running({ found }: { found: Diagnosis }) {
  const { t } = useTranslation();
  const over = probesOver(found);
  const next = found.probes.find((probe) => !over.includes(probe));
  const done = { done: over.length, all: found.probes.length };
  return (
    <Notice title={t("diagnosis.running", done)}>
      {next?.state === "QUEUED" && next.reason
        ? t("diagnosis.waits", { reason: next.reason })
        : next
          ? t("diagnosis.now", { probe: probeName(t, next.probe) })
          : null}
      <div className={`${layout["aboveM"]} ${layout["narrow"]}`}>
        <Meter value={done.done / Math.max(done.all, 1)} label={t("diagnosis.running", done)} />
      </div>
    </Notice>
  );
}
