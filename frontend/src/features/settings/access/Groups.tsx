import { Button, Select, TextInput } from "@mantine/core";
import { queryOptions, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, users } from "../../../api/queries";
import { allPages } from "../../../api/queries/pages";
import { Empty, Lines, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { actions, type Column, column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { PagedList } from "../../../components/tables/PagedTable";
import { Ago } from "../../../components/Time";
import * as format from "../../../lib/format";
import layout from "../../../components/layout.module.css";

type Group = Schemas["GroupOut"];
type Member = Schemas["GroupMemberOut"];

const CHANGES = ["groups"];
const OFFERED = 50;

const groups = queryOptions({
  queryKey: CHANGES,
  queryFn: ({ signal }) =>
    allPages("groups", (cursor) =>
      unwrap(client.GET("/api/v1/groups", { params: { query: { cursor, limit: 200 } }, signal })),
    ),
});

const fill = (name: string, body?: Schemas["GroupIn"]) =>
  unwrap(client.PUT("/api/v1/groups/{name}", { params: { path: { name } }, body }));

/** A phone shows each group as a card: the one that was opened may lie far below. */
const intoView = (panel: HTMLElement | null): void => panel?.scrollIntoView({ block: "nearest" });

/** All groups, and the members of one below. Administrators change them. */
export function Groups() {
  const { t } = useTranslation();
  const { group: chosen } = useSearch({ from: "/app/settings" });
  const isAdmin = useQuery(me).data?.role === "admin";
  const query = useQuery(groups);
  const columns: Column<Group>[] = [
    lead("name", t("projects.name"), ({ name }) => (
      <Link to="/settings" search={{ tab: "groups", group: name }} aria-current={name === chosen || undefined}>
        {name}
      </Link>
    )),
    numeric("members", t("members.title"), (group) => format.count(group.num_members)),
    column("from", t("groups.from"), (group) =>
      group.provider_group === null
        ? t("groups.administrators")
        : [group.provider_group, group.is_provisioned && t("users.byScim")].filter(Boolean).join(" · "),
    ),
    column("created", t("groups.created"), ({ created_at }) => <Ago at={created_at} />),
    column("by", t("members.by"), ({ created_by }) => created_by),
  ];
  return (
    <>
      {isAdmin ? <NewGroup taken={query.data?.items} /> : null}
      <Section guide="guides/projects#groups" title={t("settings.tab.groups")}>
        <QueryView query={query}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t("groups.none")}>{t("groups.noneHint")}</Empty>
            ) : (
              <DataTable<Group>
                rows={data.items}
                columns={columns}
                rowKey={({ name }) => name}
                label={t("settings.tab.groups")}
                testId="groups"
              />
            )
          }
        </QueryView>
      </Section>
      {chosen === undefined || query.data === undefined ? null : (
        <div key={chosen} ref={intoView}>
          <GroupPanel name={chosen} group={query.data.items.find(({ name }) => name === chosen)} isAdmin={isAdmin} />
        </div>
      )}
    </>
  );
}

/** taken: the groups there are. Creating one again would change who fills it. */
function NewGroup({ taken }: { taken: Group[] | undefined }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [provider, setProvider] = useState("");
  const asked = name.trim();
  const isTaken = taken?.some((group) => group.name === asked) ?? false;
  const create = useMutation({
    mutationFn: () => fill(asked, provider.trim() === "" ? undefined : { provider_group: provider.trim() }),
    onSuccess: async () => {
      setName("");
      setProvider("");
      await queryClient.invalidateQueries({ queryKey: CHANGES });
      await navigate({ to: "/settings", search: { tab: "groups", group: asked } });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Section title={t("groups.create")}>
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>{t("groups.lead")}</p>
      <form onSubmit={submit} className={layout["fields"]} data-testid="group-form">
        <TextInput
          label={t("projects.name")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          required
          withAsterisk={false}
          error={isTaken ? t("groups.taken") : undefined}
          maxLength={64}
          autoComplete="off"
          w={220}
        />
        <TextInput
          label={t("groups.provider")}
          placeholder={t("groups.optional")}
          value={provider}
          onChange={(e) => setProvider(e.currentTarget.value)}
          maxLength={200}
          autoComplete="off"
          w={260}
        />
        <Button type="submit" loading={create.isPending} disabled={asked === "" || taken === undefined || isTaken}>
          {t("groups.createButton")}
        </Button>
      </form>
      {create.error ? <ErrorNotice error={create.error} /> : null}
    </Section>
  );
}

/** Who is in a group and since when. `group` is undefined if there is none of this name. */
function GroupPanel({ name, group, isAdmin }: { name: string; group: Group | undefined; isAdmin: boolean }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const [removed, setRemoved] = useState<string | null>(null);
  const [isDeleting, setIsDeleting] = useState(false);
  const query = useInfiniteQuery({
    queryKey: [...CHANGES, name],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/groups/{name}/members", {
          params: { path: { name }, query: { limit: 100, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });
  const mayChange = isAdmin && group?.provider_group === null;
  const columns: Column<Member>[] = [
    lead("name", t("auth.username"), ({ username }) => <b>{username}</b>),
    column("added", t("members.added"), ({ added_at }) => <Ago at={added_at} />),
    column("by", t("members.by"), ({ added_by }) => added_by),
    ...(mayChange
      ? [
          actions<Member>("remove", t("common.rowActions"), ({ username }) => (
            <Button variant="subtle" color="red" size="compact-xs" onClick={() => setRemoved(username)}>
              {t("members.remove")}
            </Button>
          )),
        ]
      : []),
  ];
  return (
    <Section
      title={name}
      testId="group"
      note={
        isAdmin && group ? (
          <Button variant="default" color="red" size="compact-sm" onClick={() => setIsDeleting(true)}>
            {t("operation.delete")}
          </Button>
        ) : null
      }
    >
      {group ? <Filled group={group} isAdmin={isAdmin} /> : null}
      {mayChange ? <MemberForm name={name} present={query.data?.pages.flatMap((page) => page.items) ?? []} /> : null}
      <PagedList
        query={query}
        empty={<Empty title={t("members.none")} />}
        columns={columns}
        rowKey={({ username }) => username}
        label={t("members.title")}
        testId="group-members"
      />
      {removed === null ? null : (
        <ConfirmAction
          title={t("members.removeTitle", { name: removed, project: name })}
          action={t("members.remove")}
          run={() =>
            unwrap(
              client.DELETE("/api/v1/groups/{name}/members/{username}", {
                params: { path: { name, username: removed } },
              }),
            )
          }
          changes={CHANGES}
          onClose={() => setRemoved(null)}
        >
          {t("groups.removeText")}
        </ConfirmAction>
      )}
      {group && isDeleting ? (
        <ConfirmAction
          title={t("groups.deleteTitle", { name })}
          action={t("operation.delete")}
          run={() => unwrap(client.DELETE("/api/v1/groups/{name}", { params: { path: { name } } }))}
          changes={CHANGES}
          onDone={async () => {
            await navigate({ to: "/settings", search: { tab: "groups" } });
            queryClient.removeQueries({ queryKey: [...CHANGES, name] });
            await queryClient.invalidateQueries({ queryKey: ["projects"] });
          }}
          onClose={() => setIsDeleting(false)}
        >
          <Lines
            items={[
              t("groups.deleteText", { count: group.num_members }),
              ...(group.num_members > 0 ? [t("groups.removeText")] : []),
              ...(group.is_provisioned ? [t("groups.deleteScim")] : []),
            ]}
          />
        </ConfirmAction>
      ) : null}
    </Section>
  );
}

/** Why the members of a group are not changed here; administrators take over what the provider's claim fills. */
function Filled({ group, isAdmin }: { group: Group; isAdmin: boolean }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const takeOver = useMutation({
    mutationFn: () => fill(group.name, { provider_group: null }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: CHANGES }),
  });
  if (group.provider_group === null) return null;
  return (
    <>
      <p className={`${layout["text"]} ${layout["belowL"]}`}>
        {t(group.is_provisioned ? "groups.byScim" : "groups.byProvider", { group: group.provider_group })}{" "}
        {isAdmin && !group.is_provisioned ? (
          <Button variant="default" size="compact-xs" loading={takeOver.isPending} onClick={() => takeOver.mutate()}>
            {t("groups.takeOver")}
          </Button>
        ) : null}
      </p>
      {takeOver.error ? <ErrorNotice error={takeOver.error} /> : null}
    </>
  );
}

/** Adds a user to a group; the users that are known to be in it are not offered. */
function MemberForm({ name, present }: { name: string; present: Member[] }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const known = useQuery(users);
  const [username, setUsername] = useState<string | null>(null);
  const add = useMutation({
    mutationFn: (added: string) =>
      unwrap(client.PUT("/api/v1/groups/{name}/members/{username}", { params: { path: { name, username: added } } })),
    onSuccess: async () => {
      setUsername(null);
      await queryClient.invalidateQueries({ queryKey: CHANGES });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (username !== null) add.mutate(username);
  };
  const members = new Set(present.map((member) => member.username));
  return (
    <>
      <form onSubmit={submit} className={`${layout["fields"]} ${layout["belowL"]}`} data-testid="group-member-form">
        <Select
          label={t("members.user")}
          value={username}
          onChange={setUsername}
          data={known.data?.items
            .filter((user) => user.is_active && !members.has(user.username))
            .map((user) => user.username)}
          searchable
          limit={OFFERED}
          nothingFoundMessage={t("groups.nobody")}
          w={220}
        />
        <Button type="submit" loading={add.isPending} disabled={username === null}>
          {t("members.add")}
        </Button>
      </form>
      {known.error || add.error ? <ErrorNotice error={(add.error ?? known.error) as Error} /> : null}
    </>
  );
}
