import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { joinTokens } from "../../../api/queries";
import { Code, Empty, Notice, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { actions, column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Stamp } from "../../../components/Time";
import layout from "../../../components/layout.module.css";

type JoinToken = Schemas["JoinTokenOut"];

const LIFETIMES = [600, 3600, 86_400, 604_800] as const;

export function JoinTokens() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const query = useQuery(joinTokens);
  const [pool, setPool] = useState("default");
  const [uses, setUses] = useState<number | string>(1);
  const [lifetime, setLifetime] = useState(600);
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["join-tokens"] });
  const create = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/join-tokens", { body: { pool, uses: Number(uses), expires_in_s: lifetime } })),
    onSuccess: refresh,
  });
  const [revoking, setRevoking] = useState<JoinToken | null>(null);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <>
      <Section title={t("join.create")}>
        <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>{t("join.lead")}</p>
        <form onSubmit={submit} className={layout["fields"]} data-testid="join-form">
          <TextInput
            label={t("nodes.pool")}
            value={pool}
            onChange={(e) => setPool(e.currentTarget.value)}
            required
            withAsterisk={false}
            w={160}
          />
          <NumberInput label={t("join.uses")} value={uses} onChange={setUses} min={1} max={10_000} w={110} />
          <Select
            label={t("join.lifetime")}
            value={String(lifetime)}
            onChange={(value) => setLifetime(Number(value ?? 600))}
            allowDeselect={false}
            data={LIFETIMES.map((s) => ({ value: String(s), label: t(`join.for.${s}`) }))}
            w={140}
          />
          <Button type="submit" loading={create.isPending} disabled={pool.trim() === "" || uses === ""}>
            {t("join.createButton")}
          </Button>
        </form>
        {create.error ? <ErrorNotice error={create.error} /> : null}
        {create.data ? (
          <div className={layout["aboveXl"]} data-testid="join-command">
            <Notice tone="ok" title={t("join.once")} />
            <Code text={create.data.command} wrap />
            {create.data.this_machine_only ? (
              <Notice tone="warn" title={t("join.thisMachineOnly")}>
                {t("join.thisMachineOnlyHint")}
              </Notice>
            ) : null}
          </div>
        ) : null}
      </Section>
      <Section guide="guides/agents#join-a-machine" title={t("settings.tab.join")}>
        <QueryView query={query}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t("join.none")} />
            ) : (
              <DataTable<JoinToken>
                rows={data.items}
                rowKey={(token) => token.id}
                label={t("settings.tab.join")}
                columns={[
                  lead("prefix", t("tokens.prefix"), (token) => <span className="mono">{token.prefix}…</span>),
                  column("pool", t("nodes.pool"), (token) => token.pool),
                  numeric("uses", t("join.usesLeft"), (token) => token.uses_left),
                  column("expires", t("tokens.expires"), (token) => <Stamp at={token.expires_at} />),
                  actions("revoke", t("common.rowActions"), (token) => (
                    <Button variant="subtle" color="red" size="compact-xs" onClick={() => setRevoking(token)}>
                      {t("tokens.revoke")}
                    </Button>
                  )),
                ]}
              />
            )
          }
        </QueryView>
      </Section>
      {revoking ? <RevokeJoinToken token={revoking} onClose={() => setRevoking(null)} /> : null}
    </>
  );
}

function RevokeJoinToken({ token, onClose }: { token: JoinToken; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      title={t("tokens.revokeTitle")}
      action={t("tokens.revoke")}
      run={() => unwrap(client.DELETE("/api/v1/join-tokens/{token_id}", { params: { path: { token_id: token.id } } }))}
      changes={["join-tokens"]}
      onClose={onClose}
    >
      {t("join.revokeText", { prefix: token.prefix, pool: token.pool })}
    </ConfirmAction>
  );
}
