import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { me, trialGoodput, type TrialDetail, type TrialGoodput } from "../../api/queries";
import css from "../../common/goodput/goodput.module.css";
import { GoodputBar, GoodputLegend } from "../../common/goodput/GoodputBar";
import { partsOf, piecesOf, slotTime } from "../../common/goodput/pieces";
import { Empty, KeyValues, Section } from "../../components/basics";
import layout from "../../components/layout.module.css";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { Reason } from "../../components/text/Message";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";

type AttemptLedger = TrialGoodput["attempts"][number];

/** Where the slot-seconds of a trial went, as a whole and attempt by attempt. */
export function Goodput({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const query = useQuery(trialGoodput(trial.id, !isTerminal(trial.state)));
  return (
    <QueryView query={query}>
      {(data) =>
        data.allocated_s > 0 ? (
          <Ledger trial={trial} data={data} />
        ) : (
          <Empty title={t("goodput.noSlots")}>{t("goodput.noSlotsHint")}</Empty>
        )
      }
    </QueryView>
  );
}

function Ledger({ trial, data }: { trial: TrialDetail; data: TrialGoodput }) {
  const { t } = useTranslation();
  const [pieces, parts] = [piecesOf(data.classes), partsOf(data.classes, data.parts)];
  const longest = Math.max(...data.attempts.map((attempt) => attempt.allocated_s));
  return (
    <>
      <Section
        guide="guides/goodput#one-run"
        title={t("goodput.whole")}
        note={slotTime(t, data.allocated_s)}
        testId="goodput"
      >
        {data.headline ? (
          <p className={css["headline"]} data-testid="goodput-headline">
            <Reason text={data.headline} parts={data.headline_parts} />
          </p>
        ) : null}
        <GoodputBar pieces={pieces} label={t("goodput.whole")} />
        <GoodputLegend pieces={pieces} />
        {data.queued_s > 0 ? (
          <p className={`dim ${layout["aboveL"]}`}>{t("goodput.queuedAll", { time: format.elapsed(data.queued_s) })}</p>
        ) : null}
      </Section>
      {parts.length > 0 ? (
        <Section title={t("goodput.parts")} note={t("goodput.partsNote")} testId="goodput-parts">
          <GoodputBar pieces={parts} label={t("goodput.parts")} />
          <GoodputLegend pieces={parts} />
        </Section>
      ) : null}
      <Section title={t("goodput.attempts")} note={t("goodput.attemptsNote")} testId="goodput-attempts">
        <ol className={css["attempts"]}>
          {data.attempts.map((attempt) => (
            <Attempt key={attempt.no} attempt={attempt} length={attempt.allocated_s / longest} />
          ))}
        </ol>
      </Section>
      {data.continuation ? <Continuation found={data.continuation} /> : null}
      {data.efficiency ? <Efficiency card={data.efficiency} /> : null}
      {data.save_interval ? <Interval trial={trial} advice={data.save_interval} /> : null}
    </>
  );
}

/** What the run asked for, used and lost, and what to change. */
function Efficiency({ card }: { card: NonNullable<TrialGoodput["efficiency"]> }) {
  const { t } = useTranslation();
  const asked = [
    t("trial.slots", { count: card.slots }),
    card.memory_bytes ? t("goodput.memoryEach", { memory: format.bytes(card.memory_bytes) }) : null,
  ];
  const amount = (name: string, value: number) =>
    name === "memory_bytes" ? format.bytes(value) : format.pct(value / 100);
  return (
    <Section title={t("goodput.efficiency")} guide="guides/goodput#one-run" testId="efficiency">
      <KeyValues
        items={[
          [t("goodput.asked"), asked.filter(Boolean).join(" · ")],
          ...card.used.map(({ name, median, peak, num_samples: count }): [string, string] => [
            t(`goodput.used.${name}`),
            t("goodput.usedOf", { median: amount(name, median), peak: amount(name, peak), count }),
          ]),
          ...(card.lost
            ? [
                [
                  t("goodput.largestLoss"),
                  `${t(`goodput.kind.${card.lost as "idle"}`)} · ${format.pct(card.lost_share)}`,
                ] as [string, string],
              ]
            : []),
        ]}
      />
      {card.advice.map((advice) => (
        <p key={advice.text}>
          <Reason text={advice.text} parts={advice.parts} />
        </p>
      ))}
    </Section>
  );
}

function Attempt({ attempt, length }: { attempt: AttemptLedger; length: number }) {
  const { t } = useTranslation();
  const name = t("goodput.attemptNo", { no: attempt.no });
  const facts = [
    slotTime(t, attempt.allocated_s),
    useSurvival(attempt),
    attempt.queued_s ? t("goodput.queued", { time: format.elapsed(attempt.queued_s) }) : null,
  ];
  return (
    <li>
      <span>{name}</span>
      <GoodputBar pieces={piecesOf(attempt.classes)} label={name} length={length} />
      <span>{facts.filter(Boolean).join(" · ")}</span>
    </li>
  );
}

/** Which of its steps are part of the result. */
function useSurvival({ kept_step: step, classes }: AttemptLedger): string {
  const { t } = useTranslation();
  if (classes["abandoned"]) return t("goodput.keptNothing");
  if (step !== null) return step > 0 ? t("goodput.keptTo", { step: format.count(step) }) : t("goodput.keptNone");
  if (classes["unmeasured"]) return t("goodput.keptUnknown");
  return classes["productive"] ? t("goodput.keptAll") : t("goodput.noSteps");
}

/** Which samples the training has used over its restarts, and whether each was used once. */
function Continuation({ found }: { found: NonNullable<TrialGoodput["continuation"]> }) {
  const { t } = useTranslation();
  const more = found.num_repeated + found.num_skipped + found.num_unconfirmed;
  const listed = found.stretches.reduce((sum, stretch) => sum + stretch.stop - stretch.start, 0);
  return (
    <Section
      title={t("goodput.samples")}
      note={found.is_proven ? t("goodput.proven") : t("goodput.notProven")}
      guide="guides/sdk#samples-used-once"
      testId="continuation"
    >
      <p className={layout["aboveNone"]}>
        <Reason text={found.verdict} parts={found.verdict_parts} />{" "}
        {found.curve === "" ? null : <Reason text={found.curve} parts={found.curve_parts} />}
      </p>
      {found.num_used === null ? null : (
        <KeyValues
          items={[
            [t("goodput.samplesUsed"), format.count(found.num_used)],
            [t("goodput.perEpoch"), format.count(found.num_samples)],
            [
              t("goodput.dealtTo"),
              t("goodput.ranks", { ranks: found.num_ranks.join(" → "), count: found.num_ranks.at(-1) ?? 0 }),
            ],
            [t("goodput.padded"), format.count(found.num_padded)],
            [t("goodput.leftOut"), format.count(found.num_left_out)],
          ]}
        />
      )}
      {found.stretches.length > 0 ? (
        <ul>
          {found.stretches.map((stretch) => (
            <li key={`${stretch.kind} ${stretch.epoch} ${stretch.start}`}>
              {t(`goodput.stretch.${stretch.kind}`, {
                epoch: stretch.epoch + 1,
                first: format.count(stretch.start),
                last: format.count(stretch.stop - 1),
                no: stretch.attempt_no,
              })}
            </li>
          ))}
          {listed < more ? <li>{t("goodput.moreSamples", { count: more - listed })}</li> : null}
        </ul>
      ) : null}
    </Section>
  );
}

interface IntervalProps {
  trial: TrialDetail;
  advice: NonNullable<TrialGoodput["save_interval"]>;
}

/** How often to save; the built-in trainer can be told to, a script decides itself. */
function Interval({ trial, advice }: IntervalProps) {
  const { t } = useTranslation();
  const isViewer = useQuery(me).data?.role === "viewer";
  const hasTrainer = Boolean(trial.config["trainer"]);
  return (
    <Section title={t("goodput.interval")} testId="goodput-interval">
      <p className={layout["aboveNone"]}>
        <Reason text={advice.reason} parts={advice.reason_parts} />
      </p>
      <KeyValues
        items={[
          [
            t("goodput.intervalBest"),
            t("goodput.intervalSteps", { count: advice.steps, time: format.elapsed(advice.interval_s) }),
          ],
          [t("goodput.intervalLost"), format.pct(advice.lost_share)],
          [t("goodput.intervalLostNow"), format.pct(advice.lost_share_now)],
          [t("goodput.failures"), format.duration(advice.failure_every_s)],
        ]}
      />
      {hasTrainer && !isViewer ? (
        <LinkButton
          to="/submit"
          search={{ from: trial.experiment_id, set: `checkpoints.every={"steps":${advice.steps}}` }}
          size="xs"
          className={layout["aboveL"]}
          data-testid="fork-interval"
        >
          {t("goodput.fork")}
        </LinkButton>
      ) : null}
      {hasTrainer ? null : (
        <p className="dim">
          <Reason text={t("goodput.ownSaves")} parts={undefined} />
        </p>
      )}
    </Section>
  );
}
