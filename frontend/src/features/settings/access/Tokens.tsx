import { Button, MultiSelect, NumberInput, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { SERVER } from "../../../lib/address";
import { client, type Schemas, unwrap } from "../../../api/client";
import { accountTokens, me, projects, tokens } from "../../../api/queries";
import { Code, Empty, Notice, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Ago, Stamp } from "../../../components/Time";
import { rolesUpTo } from "./roles";
import layout from "../../../components/layout.module.css";

type Token = Schemas["TokenOut"];
type Account = Schemas["UserOut"];

const DAYS_MAX = 3650;
const DAYS_MAX_SERVICE = 365;
const PROJECTS_MAX = 20;

/** The user's own tokens, or those of a service account. */
export function Tokens({ account }: { account?: Account }) {
  return (
    <>
      <TokenForm account={account} />
      <TokenList account={account} />
    </>
  );
}

/** Creates a token, and shows its secret once. */
function TokenForm({ account }: { account: Account | undefined }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const self = useQuery(me).data;
  const user = account ?? self;
  const known = useInfiniteQuery(projects).data?.pages.flatMap((page) => page.items.map((item) => item.name)) ?? [];
  const [limits, setLimits] = useState<string[]>([]);
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | string>(90);
  const [role, setRole] = useState<string | null>(null);
  const create = useMutation({
    mutationFn: () => {
      const body = {
        name,
        expires_in_days: Number(days),
        role: (role as Token["role"] | null) ?? undefined,
        projects: limits.length > 0 ? limits : undefined,
      };
      return unwrap(
        account === undefined
          ? client.POST("/api/v1/tokens", { body })
          : client.POST("/api/v1/users/{user_id}/tokens", { params: { path: { user_id: account.id } }, body }),
      );
    },
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
    <Section title={account ? t("tokens.createFor", { name: account.username }) : t("tokens.create")}>
      <form onSubmit={submit} className={layout["fields"]} data-testid="token-form">
        <TextInput
          label={t("tokens.name")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          required
          withAsterisk={false}
          maxLength={128}
          w={220}
          placeholder={account ? "nightly" : "laptop"}
        />
        <Select
          label={t("settings.role")}
          value={role ?? user?.role ?? "member"}
          onChange={setRole}
          allowDeselect={false}
          data={rolesUpTo(user?.role).map((value) => ({ value, label: t(`role.${value}`) }))}
          w={140}
        />
        <NumberInput
          label={t("tokens.days")}
          value={days}
          onChange={setDays}
          min={1}
          max={account ? DAYS_MAX_SERVICE : DAYS_MAX}
          w={120}
        />
        <MultiSelect
          label={t("tokens.limit")}
          placeholder={limits.length === 0 ? t("tokens.allProjects") : undefined}
          value={limits}
          onChange={setLimits}
          data={known}
          maxValues={PROJECTS_MAX}
          searchable
          hidePickedOptions
          w={260}
        />
        <Button type="submit" loading={create.isPending} disabled={name.trim() === "" || days === ""}>
          {t("tokens.createButton")}
        </Button>
      </form>
      <p className={`dim ${layout["text"]} ${layout["aboveS"]}`}>{t("tokens.limitHint")}</p>
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

/** Tokens, each with a button that revokes it. */
function TokenList({ account }: { account: Account | undefined }) {
  const { t } = useTranslation();
  const own = useQuery({ ...tokens, enabled: account === undefined });
  const theirs = useQuery({ ...accountTokens(account?.id ?? 0), enabled: account !== undefined });
  const query = account === undefined ? own : theirs;
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <>
      <Section
        guide={account ? "guides/operations#service-accounts" : "guides/operations#users"}
        title={account ? t("tokens.of", { name: account.username }) : t("settings.tab.tokens")}
      >
        <QueryView query={query}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty
                title={t("tokens.none")}
                action={
                  account ? undefined : (
                    <Code text={`curl -H "Authorization: Bearer $MUSTER_TOKEN" ${SERVER}/api/v1/cluster`} />
                  )
                }
              >
                {account ? t("tokens.noneHintOf", { name: account.username }) : t("tokens.noneHint")}
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
                  column("projects", t("tokens.projects"), (token) => limitText(token, t)),
                  column("created", t("tokens.created"), (token) => <Ago at={token.created_at} />),
                  column("used", t("tokens.used"), (token) =>
                    token.last_used_at ? <Ago at={token.last_used_at} /> : t("tokens.never"),
                  ),
                  column("expires", t("tokens.expires"), (token) =>
                    token.expires_at ? (
                      <span className={layout["inline"]}>
                        <Stamp at={token.expires_at} />
                        {token.expires_soon ? <span className={layout["warn"]}>{t("tokens.soon")}</span> : null}
                      </span>
                    ) : (
                      t("tokens.never")
                    ),
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

function limitText(token: Token, t: TFunction): string {
  if (token.projects === null) return t("tokens.allProjects");
  return token.projects.length === 0 ? t("tokens.noProjects") : token.projects.join(", ");
}
