import { Button, Checkbox, NumberInput, Select } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { me, type Pool, pools } from "../../api/queries";
import { Empty, Section } from "../../components/basics";
import { amount } from "../../components/BudgetBars";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { actions, type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { FormDialog } from "../../components/dialogs/FormDialog";
import { PagedList } from "../../components/tables/PagedTable";
import { Ago } from "../../components/Time";
import { useCatalog } from "../../lib/catalog";
import * as format from "../../lib/format";
import { PoolProvider } from "./PoolProvider";
import { ProviderDialog } from "./ProviderDialog";
import { PoolWasteFields } from "./PoolWasteFields";
import layout from "../../components/layout.module.css";
import { bodyOf, PoolContainersCell, PoolContainersFields, rulesOf } from "./PoolContainers";

/** Pools with what is in them, what their slots cost, what supplies their nodes; one provider whole below. */
export function Pools() {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const query = useInfiniteQuery(pools);
  const [editing, setEditing] = useState<Pool | null>(null);
  const [removing, setRemoving] = useState<Pool | null>(null);
  const [adding, setAdding] = useState(false);
  const { pool: chosen } = useSearch({ from: "/app/settings" });
  const columns: Column<Pool>[] = [
    lead("name", t("nodes.pool"), (pool) => <b>{pool.name}</b>),
    column("provider", t("provider.title"), (pool) => <ProviderCell pool={pool} isChosen={pool.name === chosen} />),
    numeric("nodes", t("nav.nodes"), (pool) =>
      t("pools.nodes", { online: pool.num_nodes_online, count: pool.num_nodes }),
    ),
    numeric(
      "slots",
      t("nodes.slots"),
      (pool) =>
        Object.entries(pool.num_slots)
          .map(([type, count]) => `${format.count(count)} ${type}`)
          .join(" · ") || format.MISSING,
    ),
    numeric("used", t("overview.slotsBusy"), (pool) => format.count(pool.num_slots_used)),
    numeric("price", t("pools.price"), (pool) =>
      t("pools.perHour", { price: amount(pool.price_per_slot_hour), currency: pool.currency }),
    ),
    column("isolation", t("pools.isolation"), (pool) => (
      <>
        {t(`pools.level.${pool.min_isolation}`)}
        {pool.num_nodes_too_weak > 0 ? (
          <span className="dim"> · {t("pools.tooWeak", { count: pool.num_nodes_too_weak })}</span>
        ) : null}
      </>
    )),
    column("containers", t("nodes.containers"), (pool) => <PoolContainersCell pool={pool} />),
    numeric("changed", t("pools.changed"), (pool) => <Ago at={pool.changed_at} />),
    ...(user?.role === "admin"
      ? [
          actions("edit", t("common.rowActions"), (pool: Pool) => (
            <>
              <Button variant="subtle" size="compact-xs" onClick={() => setEditing(pool)} data-testid="edit-pool">
                {t("common.edit")}
              </Button>
              {pool.num_nodes === 0 && pool.provider === null ? (
                <Button variant="subtle" color="red" size="compact-xs" onClick={() => setRemoving(pool)}>
                  {t("pools.forget")}
                </Button>
              ) : null}
            </>
          )),
        ]
      : []),
  ];
  return (
    <>
      <Section
        guide="guides/dashboard#nodes-and-settings"
        title={t("settings.tab.pools")}
        note={
          user?.role === "admin" ? (
            <Button variant="default" size="compact-sm" onClick={() => setAdding(true)} data-testid="add-provider">
              {t("provider.add")}
            </Button>
          ) : null
        }
      >
        <PagedList
          query={query}
          empty={<Empty title={t("pools.none")}>{t("pools.noneHint")}</Empty>}
          columns={columns}
          rowKey={(pool) => pool.name}
          label={t("settings.tab.pools")}
          testId="pools"
        />
        {editing ? <PoolDialog key={editing.name} pool={editing} onClose={() => setEditing(null)} /> : null}
        {adding ? <ProviderDialog provider={null} onClose={() => setAdding(false)} /> : null}
        {removing ? <Forget name={removing.name} onClose={() => setRemoving(null)} /> : null}
      </Section>
      {chosen === undefined ? null : <PoolProvider key={chosen} name={chosen} />}
    </>
  );
}

function ProviderCell({ pool, isChosen }: { pool: Pool; isChosen: boolean }) {
  const { t } = useTranslation();
  const kinds = useCatalog()?.providers ?? [];
  if (pool.provider === null) return <span className="dim">{t("provider.none")}</span>;
  return (
    <Link to="/settings" search={{ tab: "pools", pool: pool.name }} aria-current={isChosen || undefined}>
      {kinds.find(({ kind }) => kind === pool.provider)?.title ?? pool.provider}
    </Link>
  );
}

function Forget({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("pools.forgetTitle", { name })}
      action={t("pools.forget")}
      run={() => unwrap(client.DELETE("/api/v1/pools/{name}", { params: { path: { name } } }))}
      changes={["pools"]}
    >
      {t("pools.forgetText")}
    </ConfirmAction>
  );
}

const LEVELS = ["none", "user", "sandbox"] as const;

function PoolDialog({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [price, setPrice] = useState<number | string>(pool.price_per_slot_hour);
  const [level, setLevel] = useState(pool.min_isolation);
  const [rules, setRules] = useState(rulesOf(pool));
  const [foreign, setForeign] = useState(pool.foreign_processes);
  const [waste, setWaste] = useState(pool.waste);
  const [spares, setSpares] = useState<number | string>(pool.spares);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PUT("/api/v1/pools/{name}", {
          params: { path: { name: pool.name } },
          body: {
            price_per_slot_hour: Number(price),
            min_isolation: level,
            foreign_processes: foreign,
            waste,
            spares: Number(spares),
            ...bodyOf(rules),
          },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["pools"] });
    },
  });
  return (
    <FormDialog
      title={t("pools.settingsOf", { name: pool.name })}
      ready={price !== "" && spares !== ""}
      pending={save.isPending}
      error={save.error}
      testId="pool-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <p className={layout["text"]}>{t("pools.priceText", { count: pool.num_slots_used })}</p>
      <NumberInput
        label={t("pools.priceIn", { currency: pool.currency })}
        value={price}
        onChange={setPrice}
        min={0}
        max={1_000_000}
        decimalScale={6}
        w={200}
        data-autofocus
      />
      <Select
        label={t("pools.minIsolation")}
        description={t("pools.minIsolationHint")}
        value={level}
        onChange={(value) => setLevel(LEVELS.find((one) => one === value) ?? "none")}
        allowDeselect={false}
        data={LEVELS.map((one) => ({ value: one, label: t(`pools.level.${one}`) }))}
      />
      <PoolContainersFields rules={rules} onChange={setRules} />
      <Checkbox
        label={t("pools.ignoreForeign")}
        description={t("pools.ignoreForeignHint")}
        checked={foreign === "ignore"}
        onChange={(event) => setForeign(event.currentTarget.checked ? "ignore" : "wait")}
      />
      {pool.provider === null ? (
        <NumberInput
          label={t("pools.spares")}
          description={t("pools.sparesHint")}
          value={spares}
          onChange={setSpares}
          min={0}
          max={64}
          allowDecimal={false}
        />
      ) : null}
      <PoolWasteFields rule={waste} onChange={setWaste} />
    </FormDialog>
  );
}
