import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, tokens } from "../../../api/queries";
import { Code, Empty, Notice, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Ago, Stamp } from "../../../components/Time";
import { rolesUpTo } from "./roles";
import layout from "../../../components/layout.module.css";

type Token = Schemas["TokenOut"];

export function Tokens() {
  return (
    <>
      <TokenForm />
      <TokenList />
    </>
  );
}

/** Creates a token, and shows its secret once. */
function TokenForm() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const user = useQuery(me).data;
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | string>(90);
  const [role, setRole] = useState<string | null>(null);
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tokens", {
          body: { name, expires_in_days: Number(days), role: (role as Token["role"] | null) ?? undefined },
        }),
      ),
    onSuccess: async () => {
      setName("");
      await queryClient.invalidateQueries({ queryKey: ["tokens"] });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Section title={t("tokens.create")}>
      <form onSubmit={submit} className={layout["fields"]} data-testid="token-form">
        <TextInput
          label={t("tokens.name")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          required
          withAsterisk={false}
          maxLength={128}
          w={220}
          placeholder="laptop"
        />
        <Select
          label={t("settings.role")}
          value={role ?? user?.role ?? "member"}
          onChange={setRole}
          allowDeselect={false}
          data={rolesUpTo(user?.role).map((value) => ({ value, label: t(`role.${value}`) }))}
          w={140}
        />
        <NumberInput label={t("tokens.days")} value={days} onChange={setDays} min={1} max={3650} w={120} />
        <Button type="submit" loading={create.isPending} disabled={name.trim() === "" || days === ""}>
          {t("tokens.createButton")}
        </Button>
      </form>
      {create.error ? <ErrorNotice error={create.error} /> : null}
      {create.data ? (
        <div className={layout["aboveXl"]} data-testid="new-token">
          <Notice tone="ok" title={t("tokens.once")} />
          <Code text={create.data.secret} wrap />
        </div>
      ) : null}
    </Section>
  );
}

/** The user's tokens, each with a button that revokes it. */
function TokenList() {
  const { t } = useTranslation();
  const query = useQuery(tokens);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <>
      <Section guide="guides/operations#users" title={t("settings.tab.tokens")}>
        <QueryView query={query}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty
                title={t("tokens.none")}
                action={
                  <Code text={`curl -H "Authorization: Bearer $MUSTER_TOKEN" ${location.origin}/api/v1/cluster`} />
                }
              >
                {t("tokens.noneHint")}
              </Empty>
            ) : (
              <DataTable<Token>
                rows={data.items}
                rowKey={(token) => token.id}
                label={t("settings.tab.tokens")}
                testId="tokens"
                columns={[
                  lead("name", t("tokens.name"), (token) => token.name),
                  column("prefix", t("tokens.prefix"), (token) => <span className="mono">{token.prefix}…</span>),
                  column("role", t("settings.role"), (token) => t(`role.${token.role}`)),
                  column("created", t("tokens.created"), (token) => <Ago at={token.created_at} />),
                  column("used", t("tokens.used"), (token) =>
                    token.last_used_at ? <Ago at={token.last_used_at} /> : t("tokens.never"),
                  ),
                  column("expires", t("tokens.expires"), (token) =>
                    token.expires_at ? <Stamp at={token.expires_at} /> : t("tokens.never"),
                  ),
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
      {revoking ? (
        <ConfirmAction
          onClose={() => setRevoking(null)}
          title={t("tokens.revokeTitle")}
          action={t("tokens.revoke")}
          run={() =>
            unwrap(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: revoking.id } } }))
          }
          changes={["tokens"]}
        >
          {t("tokens.revokeText", { name: revoking.name })}
        </ConfirmAction>
      ) : null}
    </>
  );
}
