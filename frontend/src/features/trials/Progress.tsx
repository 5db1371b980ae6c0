import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { type TrialDetail, type TrialProgress, trialProgress, type TrialStacks, trialStacks } from "../../api/queries";
import { Notice, Section } from "../../components/basics";
import { column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import { errorLine, Reason } from "../../components/text/Message";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { STEP_PARTS } from "../../lib/series/perf";
import css from "./trials.module.css";

/** How far each rank is, who holds up the others when nothing moves, and where they are. */
export function Progress({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const runs = !isTerminal(trial.state);
  const progress = useQuery(trialProgress(trial.id, runs));
  const stacks = useQuery(trialStacks(trial.id, runs));
  const ask = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/trials/{trial_id}:stacks", { params: { path: { trial_id: trial.id } } })),
    onSuccess: (data) => queryClient.setQueryData(trialStacks(trial.id, runs).queryKey, data),
  });
  return (
    <>
      {runs ? (
        <Section
          title={t("stuck.title")}
          note={
            <Button
              size="xs"
              variant="default"
              title={t("stuck.askHint")}
              loading={ask.isPending}
              onClick={() => ask.mutate()}
            >
              {t("stuck.ask")}
            </Button>
          }
        >
          {ask.error ? <Notice tone="bad" title={errorLine(ask.error)} /> : null}
          <QueryView query={progress}>{(data) => <Ranks data={data} />}</QueryView>
        </Section>
      ) : null}
      {stacks.data && stacks.data.no > 0 ? <Stacks data={stacks.data} /> : null}
    </>
  );
}

function Ranks({ data }: { data: TrialProgress }) {
  const { t } = useTranslation();
  const nodes = new Map(data.ranks.map((r) => [r.rank, r.node_name]));
  return (
    <>
      <div data-testid="progress-verdict">
        {data.state === "still" ? (
          <Notice tone="warn" title={t("stuck.still", { time: format.duration(data.still_s ?? 0) })}>
            {data.blamed.length === 0
              ? t("stuck.nobody")
              : data.blamed.map((b) => (
                  <div key={b.rank}>
                    {t(b.kind === "absent" && b.group ? "stuck.kind.absentIn" : `stuck.kind.${b.kind}`, {
                      rank: b.rank,
                      node: nodes.get(b.rank) ?? format.MISSING,
                      group: b.group,
                    })}
                  </div>
                ))}
          </Notice>
        ) : data.state === "over" ? null : (
          <p className="dim">{t(`stuck.${data.state}`)}</p>
        )}
        {data.evidence.map((one) => (
          <p key={one.text} className="dim" data-testid="progress-evidence">
            {`${t(`stuck.witness.${one.witness}`)}: `}
            <Reason text={one.text} parts={one.text_parts} />
          </p>
        ))}
      </div>
      {data.ranks.length > 0 ? (
        <DataTable<(typeof data.ranks)[number]>
          rows={data.ranks}
          rowKey={(r) => String(r.rank)}
          label={t("stuck.title")}
          testId="progress"
          columns={[
            lead("rank", t("ranks.rank"), (r) => <b className={css["whole"]}>{t("rank.no", { rank: r.rank })}</b>),
            column("node", t("ranks.node"), (r) => <span className={css["whole"]}>{r.node_name}</span>),
            column("process", t("stuck.processName"), (r) =>
              r.process ? t(`stuck.process.${r.process}`) : format.MISSING,
            ),
            numeric("step", t("ranks.step"), (r) => (r.step === null ? format.MISSING : format.count(r.step))),
            column("phase", t("stuck.phase"), (r) => <Phase name={r.phase} />),
            column("counts", t("stuck.counts"), (r) => <Counts groups={r.groups} />),
            numeric("moved", t("stuck.moved"), (r) =>
              r.moved_at && r.reports ? <Ago at={r.moved_at} /> : format.MISSING,
            ),
          ]}
        />
      ) : null}
    </>
  );
}

function Counts({ groups }: { groups: TrialProgress["ranks"][number]["groups"] }) {
  if (groups.length === 0) return <>{format.MISSING}</>;
  return (
    <>
      {groups.map((g) => (
        <div key={g.group} className={css["whole"]}>
          {g.group}: {format.count(g.num_enqueued)} / {format.count(g.num_completed)}{" "}
          <span className="dim">({g.source ? `${g.kind}, ${g.source}` : g.kind})</span>
        </div>
      ))}
    </>
  );
}

/** It has the name of its part of the step. */
function Phase({ name }: { name: string }) {
  const { t } = useTranslation();
  const part = STEP_PARTS.find((known) => known === `time/${name}_ms`);
  return <>{part ? t(`part.${part}`) : name || format.MISSING}</>;
}

/** What NCCL says of the whole job is filed under this rank. */
const RAS_RANK = -2;

function Stacks({ data }: { data: TrialStacks }) {
  const { t } = useTranslation();
  const num = data.ranks.filter((r) => r.rank !== RAS_RANK).length;
  return (
    <Section
      title={t("stuck.stacks")}
      note={t("stuck.stacksNote", { count: num, all: Math.max(data.num_expected, num) })}
    >
      <div data-testid="stacks">
        {data.ranks.map((r) => (
          <details key={r.rank}>
            <summary>
              {r.rank === RAS_RANK ? t("stuck.ras") : r.rank < 0 ? t("logs.launcher") : t("rank.no", { rank: r.rank })}{" "}
              · {r.node_name} · <Ago at={r.at} /> {r.problem ? <span className="dim">{r.problem}</span> : null}
            </summary>
            {r.is_cut ? <p className="dim">{t("stuck.cut")}</p> : null}
            {r.text ? <pre className={`mono ${css["json"]}`}>{r.text}</pre> : null}
          </details>
        ))}
      </div>
    </Section>
  );
}
