import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import {
  type ProcessGroup,
  type RankSteps,
  type TrialDetail,
  trialGroups,
  trialPerformance,
  trialWorkers,
  type Worker,
} from "../../api/queries";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { Empty, KeyValues, Section } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Reason, Message } from "../../components/text/Message";
import { StateBadge, stateWord } from "../../components/StateBadge";
import { messageOf } from "../../i18n/server";
import { Ago, Elapsed, Stamp } from "../../components/Time";
import * as format from "../../lib/format";
import { rankRanges } from "../../lib/series/perf";
import { isTerminal } from "../../lib/states";
import { latestAttempt } from "./attempt";
import { Progress } from "./Progress";
import { Roles } from "./Roles";
import css from "./trials.module.css";

export function Ranks({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<string | null>(null);
  const [group, setGroup] = useState<string | null>(null);
  const attemptNo = chosen === null ? undefined : Number(chosen);
  const workers = useQuery(trialWorkers(trial.id, attemptNo));
  const groups = useQuery(trialGroups(trial.id, attemptNo));
  const measured = useQuery(trialPerformance(trial.id, !isTerminal(trial.state), attemptNo));
  const hostOf = new Map((workers.data?.items ?? []).map((w) => [w.rank, w.host]));
  const attempt = trial.attempts.find((a) => a.no === (attemptNo ?? trial.attempt_no)) ?? latestAttempt(trial);
  // The members of a gang of roles meet nowhere together.
  const first = trial.members.length > 0 ? undefined : workers.data?.items.find((w) => w.master_addr);
  const members = new Set(groups.data?.items.find((g) => g.name === group)?.ranks ?? []);
  return (
    <>
      {trial.attempts.length > 1 ? (
        <Select
          label={t("ranks.attempt")}
          w={260}
          mb="md"
          allowDeselect={false}
          value={String(attempt?.no ?? "")}
          onChange={setChosen}
          data={trial.attempts.map((a) => ({
            value: String(a.no),
            label: `${a.no} · ${messageOf("terminations", a.termination) ?? (a.reason || stateWord(t, a.state))}`.slice(
              0,
              60,
            ),
          }))}
        />
      ) : null}
      <Roles trial={trial} />
      {attempt ? <AttemptFacts attempt={attempt} first={first} /> : null}
      <Section guide="guides/dashboard#ranks-and-groups" title={t("ranks.workers")}>
        <QueryView query={workers}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t("ranks.none")}>
                {trial.pending_reason ? (
                  <Reason text={trial.pending_reason} parts={trial.pending_parts} />
                ) : (
                  t("ranks.noneHint")
                )}
              </Empty>
            ) : (
              <>
                <Topology workers={data.items} members={members} steps={measured.data?.ranks ?? []} />
                <div className={css["gap"]} />
                <WorkerTable trialId={trial.id} workers={data.items} />
              </>
            )
          }
        </QueryView>
      </Section>
      {isTerminal(trial.state) && trial.attempts.length === 0 ? null : <Progress trial={trial} />}
      <Section title={t("ranks.groups")} note={t("ranks.groupsNote")}>
        <QueryView query={groups}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t("ranks.noGroups")} />
            ) : (
              <GroupTable groups={data.items} hostOf={hostOf} chosen={group} onChoose={setGroup} />
            )
          }
        </QueryView>
      </Section>
    </>
  );
}

type Attempt = TrialDetail["attempts"][number];

/** How an attempt came about; `first`: a worker that knows where the workers meet. */
function AttemptFacts({ attempt, first }: { attempt: Attempt; first: Worker | undefined }) {
  const { t } = useTranslation();
  // Where the launchers of the nodes meet, and where the workers then do: two ports.
  const rendezvous = attempt.rendezvous_host ? `${attempt.rendezvous_host}:${attempt.rendezvous_port ?? "?"}` : null;
  return (
    <Section title={t("ranks.attemptNo", { no: attempt.no })} note={<StateBadge state={attempt.state} />}>
      <KeyValues
        items={[
          [t("ranks.world"), t("ranks.worldOn", { world: attempt.world_size, count: attempt.num_nodes })],
          ...(rendezvous
            ? ([
                [
                  t("ranks.rendezvous"),
                  <span key="r" className="mono" title={t("ranks.rendezvousHint")}>
                    {rendezvous}
                  </span>,
                ],
              ] as [string, React.ReactNode][])
            : []),
          [
            t("ranks.master"),
            <span key="m" className="mono" title={t("ranks.masterHint")}>
              {first ? `${first.master_addr}:${first.master_port}` : format.MISSING}
            </span>,
          ],
          [
            t("ranks.resumed"),
            attempt.resume_step > 0
              ? t("ranks.resumedAt", { step: format.count(attempt.resume_step) })
              : t("ranks.fresh"),
          ],
          [t("ranks.started"), attempt.started_at ? <Stamp key="s" at={attempt.started_at} /> : format.MISSING],
          [t("ranks.lasted"), <Elapsed key="e" start={attempt.started_at} end={attempt.ended_at} />],
          ...(attempt.reason
            ? ([
                [
                  t("ranks.reason"),
                  <Message key="w" kind="terminations" code={attempt.termination} text={attempt.reason} />,
                ],
              ] as [string, React.ReactNode][])
            : []),
        ]}
      />
    </Section>
  );
}

interface GroupsProps {
  groups: ProcessGroup[];
  hostOf: ReadonlyMap<number, string>;
  chosen: string | null;
  onChoose: (name: string | null) => void;
}

function GroupTable({ groups, hostOf, chosen, onChoose }: GroupsProps) {
  const { t } = useTranslation();
  return (
    <DataTable<ProcessGroup>
      rows={groups}
      rowKey={(g) => g.name}
      label={t("ranks.groups")}
      testId="groups"
      columns={[
        lead("name", t("ranks.group"), (g) => (
          <button
            type="button"
            className={`${css["cell"]} ${css["pickable"]}`}
            data-on={chosen === g.name || undefined}
            aria-pressed={chosen === g.name}
            onClick={() => onChoose(chosen === g.name ? null : g.name)}
          >
            {g.name}
          </button>
        )),
        column("kind", t("ranks.kind"), (g) => g.kind),
        column("backend", t("ranks.backend"), (g) => g.backend),
        numeric("size", t("ranks.size"), (g) => format.count(g.size)),
        column("ranks", t("ranks.members"), (g) => rankRanges(g.ranks)),
        column("hosts", t("ranks.hosts"), (g) => (
          <span className="mono">
            {[...new Set(g.ranks.map((rank) => hostOf.get(rank) ?? format.MISSING))].join(", ")}
          </span>
        )),
        column("mapping", t("ranks.relative"), (g) => (
          <span className={css["mapping"]} title={g.ranks.map((rank, i) => `${i}→${rank}`).join(" ")}>
            {g.ranks
              .slice(0, 12)
              .map((rank, i) => `${i}→${rank}`)
              .join("  ")}
            {g.ranks.length > 12 ? " …" : ""}
          </span>
        )),
      ]}
    />
  );
}

/** What the cells can be coloured by: of a rank's measured steps, or of its newest report. */
const VALUES = {
  step: { of: (r) => r?.step_ms, show: format.ms },
  wait: { of: (r) => r?.wait_ms, show: format.ms },
  heldUp: { of: (r) => r?.held_up_ms, show: format.ms },
  compute: {
    of: (r) => (r ? (r.parts["time/forward_ms"] ?? 0) + (r.parts["time/backward_ms"] ?? 0) : null),
    show: format.ms,
  },
  data: { of: (r) => r?.parts["time/data_wait_ms"], show: format.ms },
  exposed: { of: (r) => r?.parts["comm/exposed_ms"], show: format.ms },
  bubble: { of: (r) => r?.parts["pipeline/bubble_ms"], show: format.ms },
  memory: { of: (_, w) => format.fromWire(w.latest["memory/rss_bytes"]), show: format.bytes },
} satisfies Record<
  string,
  { of: (r: RankSteps | undefined, w: Worker) => number | null | undefined; show: (value: number | null) => string }
>;

type ValueName = keyof typeof VALUES;

/** Nodes as boxes, ranks as cells in order of local rank; a chosen process group lights up its
 * members, a chosen value colours them. */
function Topology({ workers, members, steps }: { workers: Worker[]; members: Set<number>; steps: RankSteps[] }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<ValueName | "plain">("plain");
  const ofRank = new Map(steps.map((r) => [r.rank, r]));
  const value = (name: ValueName, worker: Worker): number | null =>
    VALUES[name].of(ofRank.get(worker.rank), worker) ?? null;
  const offered = (Object.keys(VALUES) as ValueName[]).filter((name) => workers.some((w) => value(name, w) !== null));
  const shown = chosen !== "plain" && offered.includes(chosen) ? chosen : null;
  const values = shown === null ? [] : workers.map((w) => value(shown, w)).filter((v) => v !== null);
  const least = Math.min(...values);
  const most = Math.max(...values);
  // Values that hardly differ are not painted as if they did.
  const spread = Math.max(most - least, most / 5);
  const nodes = new Map<string, Worker[]>();
  for (const worker of workers.toSorted((a, b) => a.rank - b.rank)) {
    nodes.set(worker.node_name, [...(nodes.get(worker.node_name) ?? []), worker]);
  }
  return (
    <>
      {offered.length > 0 ? (
        <div className={css["topoBar"]}>
          <Select
            label={t("ranks.colour")}
            w={220}
            allowDeselect={false}
            value={shown ?? "plain"}
            onChange={(name) => setChosen((name ?? "plain") as ValueName | "plain")}
            data={[
              { value: "plain", label: t("ranks.plain") },
              ...offered.map((name) => ({ value: name, label: t(`ranks.value.${name}`) })),
            ]}
          />
          {shown === null ? null : (
            <span className="dim" data-testid="scale">
              {t("ranks.scale", { least: VALUES[shown].show(least), most: VALUES[shown].show(most) })}
            </span>
          )}
        </div>
      ) : null}
      <div className={css["topo"]} data-testid="topology">
        {[...nodes].map(([name, list]) => (
          <div key={name} className={css["topoNode"]}>
            <h3>
              {name}
              {list[0]?.member ? null : (
                <span className="dim"> · {t("ranks.nodeRank", { rank: list[0]?.node_rank ?? 0 })}</span>
              )}
            </h3>
            <div className={css["topoCells"]}>
              {list.map((worker) => {
                const mine = shown === null ? null : value(shown, worker);
                const text = shown === null ? null : VALUES[shown].show(mine);
                const place = t("ranks.cell", { rank: worker.rank, local: worker.local_rank, slot: worker.slot });
                return (
                  <span
                    key={worker.rank}
                    className={css["cell"]}
                    data-on={members.has(worker.rank) || undefined}
                    data-bad={
                      (worker.exit_code !== null && worker.exit_code !== 0) || worker.signal !== null || undefined
                    }
                    data-share={mine === null ? undefined : ""}
                    style={
                      mine === null
                        ? undefined
                        : ({ "--share": spread > 0 ? (mine - least) / spread : 0 } as React.CSSProperties)
                    }
                    title={text === null ? place : `${place}: ${text}`}
                  >
                    {worker.member || worker.rank}
                    {text === null ? null : <small>{text}</small>}
                  </span>
                );
              })}
            </div>
          </div>
        ))}
      </div>
    </>
  );
}

function exitText(worker: Worker): string {
  if (worker.signal !== null) return `signal ${worker.signal}`;
  if (worker.exit_code !== null) return String(worker.exit_code);
  return "";
}

function WorkerTable({ trialId, workers }: { trialId: number; workers: Worker[] }) {
  const { t } = useTranslation();
  const mono = (text: string) => <span className="mono">{text}</span>;
  const columns: Column<Worker>[] = [
    lead("rank", t("ranks.rank"), (w) => (
      <Link to="/trials/$trialId" params={{ trialId: String(trialId) }} search={{ tab: "logs", rank: String(w.rank) }}>
        {w.member || t("rank.no", { rank: w.rank })}
      </Link>
    )),
    numeric("local", t("ranks.local"), (w) => w.local_rank, { phone: false }),
    numeric("nodeRank", t("ranks.nodeRankShort"), (w) => w.node_rank, { phone: false }),
    numeric("world", t("ranks.worldSize"), (w) => w.world_size, { phone: false }),
    column("node", t("ranks.node"), (w) => w.node_name),
    column("host", t("ranks.host"), (w) => mono(w.host), { phone: false }),
    numeric("pid", "PID", (w) => w.pid, { phone: false }),
    {
      id: "master",
      phone: false,
      header: t("ranks.master"),
      cell: (w) => mono(w.master_addr ? `${w.master_addr}:${w.master_port}` : format.MISSING),
    },
    column("device", t("ranks.device"), (w) => `${w.device}${w.backend ? ` · ${w.backend}` : ""}`),
    numeric("step", t("ranks.step"), (w) => (w.reports ? format.count(w.step) : t("ranks.silent"))),
    numeric("stepMs", t("perf.step"), (w) => format.ms(w.latest["time/step_ms"])),
    numeric("seen", t("ranks.lastReport"), (w) => <Ago at={w.last_report_at} short />),
    column("exit", t("ranks.exit"), (w) => (exitText(w) ? <span title={w.exit_message}>{exitText(w)}</span> : "")),
  ];
  return (
    <DataTable rows={workers} columns={columns} rowKey={(w) => w.rank} label={t("ranks.workers")} testId="workers" />
  );
}
