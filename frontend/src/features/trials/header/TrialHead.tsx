import { Button, Menu } from "@mantine/core";
import { IconDots, IconDownload, IconGitCompare, IconPlayerStop, IconPlayerTrackNext } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { url } from "../../../lib/address";
import { type ExperimentDetail, me, type TrialDetail } from "../../../api/queries";
import { PageHead } from "../../../components/basics";
import { FlagBadge, StateBadge } from "../../../components/StateBadge";
import css from "../../../components/ui.module.css";
import { Ago, Elapsed } from "../../../components/Time";
import { ExperimentActions } from "../../../common/experiments/ExperimentActions";
import { Origin } from "../../../common/experiments/Origin";
import { UnmanagedBadge } from "../../../common/experiments/UnmanagedBadge";
import { mayChange } from "../../../lib/access";
import * as format from "../../../lib/format";
import { isTerminal } from "../../../lib/states";
import { SendOnDialog } from "./SendOnDialog";
import { StopDialog } from "./StopDialog";

const HPARAMS_SHOWN = 6;
const HPARAM_CHARS = 40;

interface Props {
  trial: TrialDetail;
  /** Undefined until it is loaded. */
  experiment: ExperimentDetail | undefined;
  /** It is the only trial of its experiment, so the page is the experiment's too. */
  isOnly: boolean;
}

/** Name, state and actions of a trial; below them, unless short, where it belongs and what it runs on. */
export function TrialHead({ trial: data, title, isShort, ...rest }: Props & { title: string; isShort: boolean }) {
  return (
    <PageHead
      guide="guides/dashboard#a-trial-is-it-learning-is-it-fast-which-rank-is-the-problem"
      title={title}
      badge={
        <>
          <StateBadge state={rest.isOnly && rest.experiment?.is_doubtful ? "DOUBTFUL" : data.state} />
          <UnmanagedBadge client={data.unmanaged} />
          {data.flags.map((flag) => (
            <FlagBadge key={flag} flag={flag} />
          ))}
          {data.hparams_before ? <Guarded /> : null}
        </>
      }
      actions={<TrialActions trial={data} {...rest} />}
      sub={isShort ? null : <TrialFacts trial={data} {...rest} />}
    />
  );
}

/** Says that the trial does not run with the hyperparameters it began with. */
function Guarded() {
  const { t } = useTranslation();
  return (
    <span className={css["badge"]} data-tone="warn" data-testid="guarded">
      {t("trial.guarded")}
    </span>
  );
}

function TrialActions({ trial: data, experiment: whole, isOnly }: Props) {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<"stop" | "promote" | null>(null);
  const isMine = mayChange(useQuery(me).data, whole?.owner ?? null);
  const about = { id: data.id, no: data.no, name: data.experiment_name, slots: data.num_slots };
  const more = (
    <>
      <Menu.Item
        component={Link}
        to="/compare"
        search={{ trials: String(data.id) } as never}
        leftSection={<IconGitCompare size={14} aria-hidden />}
        data-testid="compare-with"
      >
        {t("trial.compareWith")}
      </Menu.Item>
      <Menu.Item
        component="a"
        href={url(`/api/v1/trials/${data.id}/series.csv`)}
        download
        leftSection={<IconDownload size={14} aria-hidden />}
        data-testid="download-csv"
      >
        {t("trial.downloadCsv")}
      </Menu.Item>
    </>
  );
  if (isOnly) return whole ? <ExperimentActions experiment={whole} more={more} /> : null;
  return (
    <>
      {data.may_be_sent_on && isMine ? (
        <Button
          variant="default"
          leftSection={<IconPlayerTrackNext size={14} aria-hidden />}
          onClick={() => setAsked("promote")}
          data-testid="send-on"
        >
          {t("sendOn.button")}
        </Button>
      ) : null}
      {!isTerminal(data.state) && isMine ? (
        <Button
          color="red"
          variant="light"
          leftSection={<IconPlayerStop size={14} aria-hidden />}
          onClick={() => setAsked("stop")}
          disabled={data.state === "STOPPING"}
          data-testid="stop"
        >
          {t("operation.stop")}
        </Button>
      ) : null}
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" px={8} aria-label={t("common.actions")} data-testid="more-actions">
            <IconDots size={16} aria-hidden />
          </Button>
        </Menu.Target>
        <Menu.Dropdown>{more}</Menu.Dropdown>
      </Menu>
      {asked === "promote" ? <SendOnDialog trial={about} onClose={() => setAsked(null)} /> : null}
      {asked === "stop" ? <StopDialog trial={about} onClose={() => setAsked(null)} /> : null}
    </>
  );
}

/** The line under the title: where the trial belongs, its slots, how long it ran, its hyperparameters. */
function TrialFacts({ trial: data, experiment: whole, isOnly }: Props) {
  const { t } = useTranslation();
  const held = data.num_slots_held;
  return (
    <>
      {isOnly ? (
        <span className="num">#{data.experiment_id}</span>
      ) : (
        <Link to="/experiments/$experimentId" params={{ experimentId: String(data.experiment_id) }}>
          {t("experiment.ref", { id: data.experiment_id })}
        </Link>
      )}
      {isOnly && whole ? <Origin experiment={whole} /> : null}
      {data.unmanaged !== null ? (
        <Heard trial={data} />
      ) : (
        <span>
          {held > 0 && held !== data.num_slots
            ? t("trial.slotsHeld", { held, count: data.num_slots })
            : t("trial.slots", { count: data.num_slots })}
        </span>
      )}
      <span data-testid="stat-elapsed">
        {data.started_at ? (
          <>
            {t(data.ended_at ? "trial.ran" : "trial.running")} <Elapsed start={data.started_at} end={data.ended_at} />
          </>
        ) : (
          <>
            {t(data.ended_at ? "trial.waited" : "trial.waiting")} <Elapsed start={data.queued_at} end={data.ended_at} />
          </>
        )}
      </span>
      {data.unmanaged === null && data.last_report_at !== null && !isTerminal(data.state) ? (
        <span data-testid="stat-age">
          {t("trial.lastReport")} <Ago at={data.last_report_at} />
        </span>
      ) : null}
      {isOnly && whole?.archived_at ? <span>{t("experiments.isArchived")}</span> : null}
      <HparamLine hparams={data.hparams} />
    </>
  );
}

/** When the client of an unmanaged trial last said anything; a warning when that is long ago. */
function Heard({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  return (
    <span data-testid="heard" data-tone={data.is_silent ? "warn" : undefined}>
      {t(data.is_silent ? "unmanaged.silent" : "unmanaged.heard")} <Ago at={data.last_report_at} />
    </span>
  );
}

const clipped = (text: string): string => (text.length > HPARAM_CHARS ? `${text.slice(0, HPARAM_CHARS)}…` : text);

function HparamLine({ hparams }: { hparams: Record<string, unknown> }) {
  const entries = Object.entries(hparams);
  if (entries.length === 0) return null;
  return (
    <span className="mono" title={JSON.stringify(hparams, null, 1)}>
      {entries
        .slice(0, HPARAMS_SHOWN)
        .map(([key, value]) => `${key}=${typeof value === "number" ? format.num(value) : clipped(String(value))}`)
        .join("  ")}
      {entries.length > HPARAMS_SHOWN ? " …" : ""}
    </span>
  );
}
