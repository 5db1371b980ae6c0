import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { me, poolPilots, poolProvider } from "../../api/queries";
import { Empty, KeyValues, Meter, Notice, Section, Stats } from "../../components/basics";
import { amount } from "../../components/BudgetBars";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { QueryView } from "../../components/QueryView";
import { Ago, Stamp, Until } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import * as format from "../../lib/format";
import { countsOf } from "./providerForm";
import { ProviderDialog } from "./ProviderDialog";
import layout from "../../components/layout.module.css";

type Provider = Schemas["ProviderOut"];
type Pilot = Schemas["PilotOut"];

/** What supplies the nodes of a pool: how it fares, what it costs, and its pilots. */
export function PoolProvider({ name }: { name: string }) {
  const query = useQuery(poolProvider(name));
  return (
    <>
      <QueryView query={query}>{(data) => <Panel provider={data} />}</QueryView>
      <Pilots pool={name} />
    </>
  );
}

function Panel({ provider }: { provider: Provider }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [asked, setAsked] = useState<"change" | "release" | null>(null);
  const close = (): void => setAsked(null);
  const counts = countsOf(provider.num_pilots);
  const isReleased = provider.max_pilots === 0;
  return (
    <Section
      title={t("provider.of", { pool: provider.pool, provider: provider.name })}
      guide="guides/slurm#let-muster-submit-pilots"
      testId="pool-provider"
      note={
        user?.role === "admin" ? (
          <span className={`${uiCss["filters"]} ${layout["text"]}`}>
            <Button
              variant="default"
              size="compact-sm"
              onClick={() => setAsked("change")}
              data-testid="change-provider"
            >
              {t("common.edit")}
            </Button>
            {isReleased ? null : (
              <Button variant="default" color="red" size="compact-sm" onClick={() => setAsked("release")}>
                {t("provider.release")}
              </Button>
            )}
          </span>
        ) : null
      }
    >
      {isReleased ? <Notice title={t("provider.released")} /> : null}
      {provider.problem ? (
        <Notice tone="bad" title={provider.problem}>
          {provider.not_before ? (
            <>
              {t("provider.nextAt", { count: provider.failures })} <Until at={provider.not_before} />
            </>
          ) : null}
        </Notice>
      ) : null}
      {provider.notice ? <Notice tone="warn" title={t("provider.nodes", { nodes: provider.notice })} /> : null}
      <Stats
        compact
        items={[
          { label: t("provider.wanted"), value: format.count(counts.wanted) },
          { label: t("provider.pending"), value: format.count(counts.pending) },
          { label: t("provider.running"), value: format.count(counts.running), testId: "pilots-running" },
          { label: t("provider.ending"), value: format.count(counts.ending) },
          { label: t("provider.failed"), value: format.count(provider.num_failed), note: t("provider.inADay") },
        ]}
      />
      <Facts provider={provider} />
      {asked === "change" ? <ProviderDialog provider={provider} onClose={close} /> : null}
      {asked === "release" ? <Release name={provider.pool} onClose={close} /> : null}
    </Section>
  );
}

function Facts({ provider }: { provider: Provider }) {
  const { t } = useTranslation();
  const given = Object.entries(provider.options).map(([name, value]) => `${name} ${value}`);
  return (
    <KeyValues
      items={[
        [
          t("provider.size"),
          t(provider.exclusive ? "provider.sizeExclusive" : "provider.sizeShared", {
            min: provider.min_pilots,
            max: provider.max_pilots,
            slots: provider.slots,
            type: provider.slot_type,
          }),
        ],
        [
          t("provider.time"),
          t("provider.timeText", {
            walltime: format.duration(provider.walltime_s),
            idle: format.duration(provider.idle_s),
          }),
        ],
        [t("provider.used"), <Used key="used" provider={provider} />],
        [t("projects.countedSince"), <Stamp key="counted" at={provider.counted_since} />],
        [t("provider.listed"), <Ago key="listed" at={provider.listed_at} />],
        [t("provider.options"), given.join(" · ")],
      ]}
    />
  );
}

/** What the pilots have used, against what they may use. */
function Used({ provider }: { provider: Provider }) {
  const { t } = useTranslation();
  const hours = t("provider.slotHours", { hours: amount(provider.spent_slot_hours) });
  const cost = `${amount(provider.spent_cost)} ${provider.currency}`;
  const share = (used: number, most: number | null): number | null => (most === null ? null : used / most);
  const ofHours = share(provider.spent_slot_hours, provider.max_slot_hours);
  const ofCost = share(provider.spent_cost, provider.max_cost);
  const tone = (part: number) => (part >= 1 ? "bad" : part >= 0.8 ? "warn" : "run");
  return (
    <>
      {ofHours === null ? (
        hours
      ) : (
        <Meter
          value={ofHours}
          tone={tone(ofHours)}
          text={t("provider.ofLimit", { used: hours, limit: amount(provider.max_slot_hours ?? 0) })}
          label={t("provider.maxSlotHours")}
        />
      )}
      {ofCost === null ? (
        provider.price_per_slot_hour > 0 ? (
          <> · {cost}</>
        ) : null
      ) : (
        <Meter
          value={ofCost}
          tone={tone(ofCost)}
          text={t("provider.ofLimit", { used: cost, limit: amount(provider.max_cost ?? 0) })}
          label={t("provider.maxCost")}
        />
      )}
      {provider.reserved_slot_hours > 0 ? (
        <div className="dim">{t("provider.reserved", { hours: amount(provider.reserved_slot_hours) })}</div>
      ) : null}
    </>
  );
}

function Release({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("provider.releaseTitle", { name })}
      action={t("provider.release")}
      run={() => unwrap(client.DELETE("/api/v1/pools/{name}/provider", { params: { path: { name } } }))}
      // They are gone with it, and the part of the page that shows them goes with what is read again.
      onDone={() => queryClient.removeQueries({ queryKey: ["pools", name] })}
      changes={["pools"]}
    >
      {t("provider.releaseText")}
    </ConfirmAction>
  );
}

function Pilots({ pool }: { pool: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(poolPilots(pool));
  const columns: Column<Pilot>[] = [
    lead("pilot", t("provider.pilot"), (pilot) =>
      pilot.state === "up" ? (
        <Link to="/nodes/$nodeId" params={{ nodeId: pilot.id }} className="mono">
          {pilot.id}
        </Link>
      ) : (
        <span className="mono">{pilot.id}</span>
      ),
    ),
    column("state", t("provider.state"), (pilot) => stateOf(pilot, (key) => t(`provider.states.${key}`))),
    column("job", t("provider.job"), (pilot) => pilot.ref || format.MISSING),
    {
      id: "trial",
      header: t("provider.trial"),
      phone: false,
      cell: (pilot) =>
        pilot.trial_id === null ? (
          format.MISSING
        ) : (
          <Link to="/trials/$trialId" params={{ trialId: String(pilot.trial_id) }}>
            {t("provider.attempt", { trial: pilot.trial_id, no: pilot.attempt_no ?? 0 })}
          </Link>
        ),
    },
    numeric("since", t("provider.since"), (pilot) => <Ago at={pilot.since} />),
    column("reason", t("provider.reason"), (pilot) => (
      <>
        {pilot.reason}
        {pilot.state === "pending" && pilot.expected_at ? (
          <span className="dim">
            {" "}
            {t("provider.expected")} <Stamp at={pilot.expected_at} part="time" />
          </span>
        ) : null}
      </>
    )),
  ];
  return (
    <Section title={t("provider.pilots")}>
      <PagedList
        query={query}
        empty={<Empty title={t("provider.noPilots")}>{t("provider.noPilotsHint")}</Empty>}
        columns={columns}
        rowKey={(pilot) => pilot.id}
        label={t("provider.pilots")}
        testId="pilots"
      />
    </Section>
  );
}

const STATES = ["wanted", "submitting", "pending", "starting", "up", "ending", "ended"] as const;

/** A pilot that never came up has failed, whatever its state. */
const stateOf = (pilot: Pilot, word: (state: (typeof STATES)[number] | "failed") => string): string =>
  word(pilot.has_failed ? "failed" : (STATES.find((state) => state === pilot.state) ?? "ended"));
