import { Button, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { url } from "../../../lib/address";
import { client, unwrap } from "../../../api/client";
import { me, type ProfileWindow, type TrialDetail, trialProfiles } from "../../../api/queries";
import { Notice, Section } from "../../../components/basics";
import { column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { ErrorNotice } from "../../../components/QueryView";
import { Ago } from "../../../components/Time";
import * as format from "../../../lib/format";
import { openInPerfetto, PerfettoError } from "../../../lib/series/perfetto";
import { viewerAddress } from "../../../lib/series/traceViewer";
import { TraceFigures } from "./TraceFigures";
import css from "../trials.module.css";
import layout from "../../../components/layout.module.css";

const MAX_STEPS = 20;

/** Windows of the profiler: asking for one, and the traces of the last ones. */
export function Profiles({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const windows = useQuery(trialProfiles(trial.id));
  const mayAsk = trial.state === "RUNNING" && user !== undefined && user.role !== "viewer";
  const kept = windows.data?.items ?? [];
  if (!mayAsk && kept.length === 0) return null;
  return (
    <Section guide="concepts/measuring#profiler-traces" title={t("profiles.title")} note={t("profiles.note")}>
      {mayAsk ? <Ask trial={trial} isOpen={kept.some((w) => !w.is_complete)} /> : null}
      {kept.length > 0 ? <Windows trial={trial} kept={kept} /> : null}
    </Section>
  );
}

function Ask({ trial, isOpen }: { trial: TrialDetail; isOpen: boolean }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [ranks, setRanks] = useState("0");
  const [steps, setSteps] = useState<number | string>(5);
  const chosen = ranks.split(",").map((part) => part.trim());
  const isValid = chosen.every((part) => /^\d{1,6}$/.test(part)) && Number(steps) >= 1;
  const ask = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/trials/{trial_id}/profiles", {
          params: { path: { trial_id: trial.id } },
          body: { ranks: chosen.map(Number), steps: Number(steps) },
        }),
      ),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["trial", trial.id, "profiles"] }),
  });
  return (
    <form
      className={`${layout["fields"]} ${layout["belowXl"]}`}
      onSubmit={(event) => {
        event.preventDefault();
        ask.mutate();
      }}
    >
      <TextInput
        size="xs"
        w={140}
        label={t("profiles.ranks")}
        value={ranks}
        onChange={(event) => setRanks(event.currentTarget.value)}
        error={isValid ? undefined : t("profiles.ranksWrong")}
      />
      <NumberInput
        size="xs"
        w={100}
        label={t("profiles.steps")}
        min={1}
        max={MAX_STEPS}
        allowDecimal={false}
        value={steps}
        onChange={setSteps}
      />
      <Button
        type="submit"
        size="xs"
        variant="default"
        title={t("profiles.askHint")}
        loading={ask.isPending || isOpen}
        disabled={!isValid}
        data-testid="profile"
      >
        {t("profiles.ask")}
      </Button>
      {ask.error ? <ErrorNotice error={ask.error} /> : null}
    </form>
  );
}

function Windows({ trial, kept }: { trial: TrialDetail; kept: ProfileWindow[] }) {
  const { t } = useTranslation();
  const [problem, setProblem] = useState<"blocked" | "silent" | "failed" | null>(null);
  const [shown, setShown] = useState<number | null>(null);
  const rows = kept.flatMap((window) => window.ranks.map((rank) => ({ window, rank })));
  const show = (address: string, title: string, fileName: string) => {
    setProblem(null);
    const load = async () => {
      const reply = await fetch(address);
      if (!reply.ok) throw new Error(reply.statusText);
      return { title, fileName, buffer: await reply.arrayBuffer() };
    };
    openInPerfetto(load).catch((error: unknown) => setProblem(error instanceof PerfettoError ? error.kind : "failed"));
  };
  return (
    <>
      {problem ? <Notice tone="warn" title={t(`profiles.perfetto.${problem}`)} /> : null}
      <DataTable<(typeof rows)[number]>
        rows={rows}
        rowKey={({ window, rank }) => `${window.no}.${rank.rank}`}
        label={t("profiles.title")}
        testId="profiles"
        columns={[
          lead("window", t("profiles.window"), ({ window, rank }) => (
            <b className={css["whole"]}>{t("profiles.of", { no: window.no, rank: rank.rank })}</b>
          )),
          column("node", t("profiles.node"), ({ rank }) => <span className={css["whole"]}>{rank.node_name}</span>),
          column("asked", t("profiles.asked"), ({ window }) => <Ago at={window.asked_at} />),
          numeric("steps", t("profiles.steps"), ({ rank }) =>
            rank.first_step === null || rank.last_step === null
              ? format.MISSING
              : `${format.count(rank.first_step)}–${format.count(rank.last_step)}`,
          ),
          numeric("size", t("profiles.size"), ({ rank }) =>
            rank.state === "ready" ? format.bytes(rank.size_bytes) : format.MISSING,
          ),
          column("trace", t("profiles.trace"), ({ window, rank }) => {
            if (rank.state === "waiting") return <span className="dim">{t("profiles.waiting")}</span>;
            if (rank.state === "failed") return <span className="dim">{rank.problem}</span>;
            const path = `/api/v1/trials/${trial.id}/profiles/${window.no}/ranks/${rank.rank}/trace`;
            const file = `trial-${trial.id}-window-${window.no}-rank-${rank.rank}.json.gz`;
            const title = `${trial.experiment_name} · ${t("profiles.of", { no: window.no, rank: rank.rank })}`;
            return (
              <span className={layout["inline"]}>
                <Button
                  component="a"
                  size="compact-xs"
                  variant="default"
                  title={t("profiles.openHint")}
                  href={viewerAddress(path, title)}
                  target="_blank"
                  rel="noopener"
                >
                  {t("profiles.open")}
                </Button>
                <Button
                  size="compact-xs"
                  variant="default"
                  title={t("profiles.perfettoHint")}
                  onClick={() => show(url(path), title, file)}
                >
                  Perfetto
                </Button>
                <Button
                  size="compact-xs"
                  variant="default"
                  title={t("profiles.figures.hint")}
                  data-testid={`figures-${window.no}`}
                  onClick={() => setShown(window.no)}
                >
                  {t("profiles.figures.show")}
                </Button>
                <a href={url(path)} download={file}>
                  {t("profiles.download")}
                </a>
              </span>
            );
          }),
        ]}
      />
      {kept.some((window) => window.no === shown) && shown !== null ? (
        <TraceFigures trial={trial.id} no={shown} />
      ) : null}
    </>
  );
}
