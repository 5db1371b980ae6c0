import { Button, NumberInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import {
  type Retention as Found,
  retention,
  type RetentionAges,
  type RetentionForecast,
  retentionForecast,
} from "../../api/queries";
import { Section } from "../../components/basics";
import { column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";

const METRICS = "MUSTER_METRIC_RETENTION_DAYS";
const LOGS = "MUSTER_LOG_RETENTION_DAYS";

/** What is deleted by age, and what other ages would free. */
export function Retention() {
  const { t } = useTranslation();
  const query = useQuery(retention({}));
  const growth = useQuery(retentionForecast);
  const [given, setGiven] = useState<RetentionAges>({});
  const [asked, setAsked] = useState<RetentionAges | null>(null);
  const answer = useQuery({ ...retention(asked ?? {}), enabled: asked !== null, placeholderData: keepPreviousData });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setAsked({ ...given });
  };
  const days = (value: number | string): number | undefined => (typeof value === "number" ? value : undefined);
  return (
    <>
      <Section guide="guides/operations#retention-and-limits" title={t("settings.tab.retention")}>
        <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>
          {t("retention.lead")} {t("retention.set", { metrics: METRICS, logs: LOGS })}
        </p>
        <QueryView query={query}>{(data) => <Ages found={data} testId="retention" />}</QueryView>
      </Section>
      <Section title={t("retention.growth")}>
        <QueryView query={growth}>{(data) => <Growth found={data} />}</QueryView>
      </Section>
      <Section title={t("retention.ask")}>
        <form onSubmit={submit} className={layout["fields"]}>
          <NumberInput
            label={t("retention.askMetrics")}
            value={given.metric_days ?? ""}
            onChange={(value) => setGiven({ ...given, metric_days: days(value) })}
            min={1}
            max={36_500}
            allowDecimal={false}
            w={200}
          />
          <NumberInput
            label={t("retention.askLogs")}
            value={given.log_days ?? ""}
            onChange={(value) => setGiven({ ...given, log_days: days(value) })}
            min={1}
            max={36_500}
            allowDecimal={false}
            w={200}
          />
          <Button
            type="submit"
            variant="default"
            loading={answer.isFetching}
            disabled={given.metric_days === undefined && given.log_days === undefined}
            data-testid="retention-ask"
          >
            {t("retention.ask")}
          </Button>
        </form>
        {asked ? (
          <div className={layout["aboveXl"]}>
            <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>{t("retention.answerHint")}</p>
            <QueryView query={answer}>{(data) => <Ages found={data} testId="retention-answer" />}</QueryView>
          </div>
        ) : null}
      </Section>
    </>
  );
}

/** Further ahead, the pace of a week says nothing. */
const FAR_DAYS = 3650;

/** What is stored of each kind, and how long the disk lasts at this pace. */
function Growth({ found }: { found: RetentionForecast }) {
  const { t } = useTranslation();
  const days = (n: number): string => t("retention.days", { count: n, n: format.count(n) });
  const known = (bytes: number | null): string => (bytes === null ? format.MISSING : format.bytes(bytes));
  return (
    <>
      <p className={`dim ${layout["text"]} ${layout["belowS"]}`} data-testid="retention-forecast">
        {found.days_left === null
          ? found.reason && t(`retention.noForecast.${found.reason}`)
          : `${t(found.days_left > FAR_DAYS ? "retention.far" : "retention.full", {
              count: found.days_left,
              n: format.count(found.days_left),
              history: days(Math.min(7, Math.floor(found.history_days))),
            })} ${t("retention.fullHint")}`}
      </p>
      <DataTable<RetentionForecast["items"][number]>
        rows={found.items}
        rowKey={(row) => row.kind}
        label={t("retention.growth")}
        testId="retention-growth"
        columns={[
          lead("what", t("retention.what"), (row) => (
            <>
              <b>{t(`retention.kind.${row.kind}`)}</b>{" "}
              <small className="dim">{t(`retention.place.${row.place}`)}</small>
            </>
          )),
          numeric("takes", t("retention.takes"), (row) => format.bytes(row.size_bytes)),
          numeric("perDay", t("retention.perDay"), (row) => known(row.bytes_per_day)),
          numeric("history", t("retention.history"), (row) => days(Math.floor(row.history_days))),
          numeric("removed", t("retention.removedNext"), (row) => known(row.freed_bytes)),
        ]}
      />
    </>
  );
}

const SET_COMMAND = "muster project set NAME --log-days DAYS --metric-days DAYS";

function Ages({ found, testId }: { found: Found; testId: string }) {
  const { t } = useTranslation();
  const apart = found.num_projects_apart;
  const rows = [
    {
      ...found.metrics,
      what: "metrics" as const,
      note: found.metrics.num_sampled ? t("retention.sampled", { n: format.count(found.metrics.num_sampled) }) : "",
    },
    { ...found.logs, what: "logs" as const, note: "" },
  ];
  return (
    <>
      {apart ? (
        <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>
          {t("retention.apart", { count: apart, n: format.count(apart) })} <code>{SET_COMMAND}</code>
        </p>
      ) : null}
      <DataTable<(typeof rows)[number]>
        rows={rows}
        rowKey={(row) => row.what}
        label={t("settings.tab.retention")}
        testId={testId}
        columns={[
          lead("what", t("retention.what"), (row) => <b>{t(`retention.${row.what}`)}</b>),
          column("kept", t("retention.keptFor"), (row) =>
            row.days === null
              ? t("retention.ever")
              : t("retention.days", { count: row.days, n: format.count(row.days) }),
          ),
          numeric("trials", t("retention.trials"), (row) =>
            row.days === null && !apart ? format.MISSING : format.count(row.num_trials),
          ),
          numeric("takes", t("retention.takes"), (row) =>
            row.days === null && !apart ? format.MISSING : format.bytes(row.size_bytes),
          ),
          numeric("frees", t("retention.frees"), (row) =>
            row.days === null && !apart ? (
              format.MISSING
            ) : (
              <>
                {format.bytes(row.freed_bytes)} {row.note ? <small className="dim">{row.note}</small> : null}
              </>
            ),
          ),
        ]}
      />
    </>
  );
}
