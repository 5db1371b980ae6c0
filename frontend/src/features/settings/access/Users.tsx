import { Button, MultiSelect, SegmentedControl, Select, TextInput } from "@mantine/core";
import { type QueryClient, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, projects, users } from "../../../api/queries";
import { Code, Empty, Notice, Section } from "../../../components/basics";
import { Confirm } from "../../../components/dialogs/Confirm";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { Ago, Stamp } from "../../../components/Time";
import { type Role, ROLES } from "./roles";
import { Tokens } from "./Tokens";
import layout from "../../../components/layout.module.css";

type User = Schemas["UserOut"];

type Invite = (body: Schemas["InvitationIn"], then?: { onSuccess: () => void }) => void;

export function Users() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const invitation = useMutation({
    mutationFn: (body: Schemas["InvitationIn"]) => unwrap(client.POST("/api/v1/users:invite", { body })),
    onSuccess: () => refreshUsers(queryClient),
  });
  return (
    <>
      <UserForm invite={invitation.mutate} isInviting={invitation.isPending} />
      {invitation.error ? <ErrorNotice error={invitation.error} /> : null}
      {invitation.data ? (
        <div className={layout["stack"]} data-testid="invitation-link">
          <Notice tone="ok" title={t("users.invited", { name: invitation.data.user.username })} />
          <Code text={invitation.data.url} wrap />
          {invitation.data.this_machine_only ? (
            <Notice tone="warn" title={t("users.hereOnly")}>
              {t("join.thisMachineOnlyHint")}
            </Notice>
          ) : null}
        </div>
      ) : null}
      <UserList kind="person" invite={invitation.mutate} />
      <UserList kind="service" />
    </>
  );
}

const refreshUsers = (queryClient: QueryClient) => queryClient.invalidateQueries({ queryKey: ["users"] });

/** Roles to choose from: a service account cannot be an administrator. */
function useRoleOptions(kind: User["kind"]): { value: Role; label: string }[] {
  const { t } = useTranslation();
  const roles = kind === "service" ? ROLES.filter((role) => role !== "admin") : ROLES;
  return roles.map((value) => ({ value, label: t(`role.${value}`) }));
}

/** Invites a person, who chooses the password, or creates a service account, which has none. */
function UserForm({ invite, isInviting }: { invite: Invite; isInviting: boolean }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [username, setUsername] = useState("");
  const [places, setPlaces] = useState<string[]>([]);
  const known = useInfiniteQuery(projects).data?.pages.flatMap((page) => page.items.map((item) => item.name)) ?? [];
  const [role, setRole] = useState<Role>("member");
  const [kind, setKind] = useState<User["kind"]>("person");
  const [description, setDescription] = useState("");
  const isService = kind === "service";
  const options = useRoleOptions(kind);
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/users", {
          body: { username, role, kind, description },
        }),
      ),
    onSuccess: async () => {
      setUsername("");
      setDescription("");
      await refreshUsers(queryClient);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isService) create.mutate();
    else {
      const members = places.map((project) => ({ project, role: "member" as const }));
      invite({ username, role, projects: members }, { onSuccess: () => setUsername("") });
    }
  };
  return (
    <Section title={t("users.create")}>
      <form onSubmit={submit} className={layout["fields"]} data-testid="user-form">
        <SegmentedControl
          aria-label={t("users.kind")}
          value={kind}
          onChange={(value) => {
            setKind(value as User["kind"]);
            if (role === "admin") setRole("member");
          }}
          data={(["person", "service"] as const).map((value) => ({ value, label: t(`users.kinds.${value}`) }))}
        />
        <TextInput
          label={t("auth.username")}
          value={username}
          onChange={(e) => setUsername(e.currentTarget.value)}
          required
          withAsterisk={false}
          w={180}
          autoComplete="off"
        />
        {isService ? (
          <TextInput
            label={t("users.description")}
            value={description}
            onChange={(e) => setDescription(e.currentTarget.value)}
            maxLength={200}
            w={260}
            placeholder={t("users.descriptionExample")}
          />
        ) : (
          <MultiSelect
            label={t("users.inProjects")}
            value={places}
            onChange={setPlaces}
            data={known}
            maxValues={20}
            searchable
            hidePickedOptions
            w={260}
          />
        )}
        <Select
          label={t("settings.role")}
          value={role}
          onChange={(value) => setRole((value as Role | null) ?? "member")}
          allowDeselect={false}
          data={options}
          w={140}
        />
        <Button type="submit" loading={create.isPending || isInviting} disabled={username === ""}>
          {t(isService ? "users.createService" : "users.createButton")}
        </Button>
      </form>
      {isService ? null : <p className={`dim ${layout["text"]} ${layout["aboveS"]}`}>{t("users.inviteHint")}</p>}
      {create.error ? <ErrorNotice error={create.error} /> : null}
    </Section>
  );
}

/** People or service accounts; all but oneself can be given another role or be deactivated. */
function UserList({ kind, invite }: { kind: User["kind"]; invite?: Invite }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const self = useQuery(me).data;
  const query = useQuery(users);
  const options = useRoleOptions(kind);
  const isService = kind === "service";
  const title = t(isService ? "users.services" : "settings.tab.users");
  const [shown, setShown] = useState<number | null>(null);
  const [disabling, setDisabling] = useState<User | null>(null);
  const [uninviting, setUninviting] = useState<User | null>(null);
  // The tokens of one account at a time.
  const chosen = query.data?.items.find((user) => user.id === shown);
  const patch = useMutation({
    mutationFn: ({ id, ...body }: { id: number; role?: Role; is_active?: boolean }) =>
      unwrap(client.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: id } }, body })),
    onSuccess: async () => {
      setDisabling(null);
      await refreshUsers(queryClient);
    },
  });
  return (
    <>
      <Section guide={isService ? "guides/operations#service-accounts" : "guides/operations#users"} title={title}>
        {patch.error && !disabling ? <ErrorNotice error={patch.error} /> : null}
        <QueryView query={query}>
          {(data) =>
            isService && !data.items.some((user) => user.kind === kind) ? (
              <Empty title={t("users.noServices")}>{t("users.noServicesHint")}</Empty>
            ) : (
              <DataTable<User>
                rows={data.items.filter((user) => user.kind === kind)}
                rowKey={(user: User) => user.id}
                label={title}
                testId={isService ? "service-accounts" : "users"}
                columns={[
                  lead("name", t("auth.username"), (user) => <b>{user.username}</b>),
                  column("role", t("settings.role"), (user) =>
                    user.id === self?.id ? (
                      t(`role.${user.role}`)
                    ) : (
                      <Select
                        aria-label={t("users.roleOf", { name: user.username })}
                        value={user.role}
                        onChange={(value) => value && patch.mutate({ id: user.id, role: value as Role })}
                        allowDeselect={false}
                        data={options}
                        w={130}
                      />
                    ),
                  ),
                  column("active", t("users.active"), (user) =>
                    [t(user.is_active ? "users.isActive" : "users.isOff"), user.is_provisioned && t("users.byScim")]
                      .filter(Boolean)
                      .join(" · "),
                  ),
                  isService
                    ? column("for", t("users.description"), (user: User) => user.description)
                    : column("seen", t("users.lastLogin"), (user: User) =>
                        user.invited_until ? (
                          <>
                            {t("users.invitedUntil")} <Stamp at={user.invited_until} />
                          </>
                        ) : user.last_login_at ? (
                          <Ago at={user.last_login_at} />
                        ) : (
                          t("tokens.never")
                        ),
                      ),
                  actions("toggle", t("common.rowActions"), (user) =>
                    user.id === self?.id ? (
                      ""
                    ) : (
                      <span className={layout["inline"]}>
                        {isService ? (
                          <Button
                            variant="subtle"
                            size="compact-xs"
                            aria-expanded={shown === user.id}
                            onClick={() => setShown(shown === user.id ? null : user.id)}
                          >
                            {t("settings.tab.tokens")}
                          </Button>
                        ) : null}
                        {invite && user.is_invitable ? (
                          <Button
                            variant="subtle"
                            size="compact-xs"
                            onClick={() => invite({ username: user.username, projects: [] })}
                          >
                            {t("users.newLink")}
                          </Button>
                        ) : null}
                        {user.invited_until ? (
                          <Button variant="subtle" size="compact-xs" color="red" onClick={() => setUninviting(user)}>
                            {t("users.uninvite")}
                          </Button>
                        ) : null}
                        <Button
                          variant="subtle"
                          size="compact-xs"
                          color={user.is_active ? "red" : "blue"}
                          onClick={() =>
                            user.is_active ? setDisabling(user) : patch.mutate({ id: user.id, is_active: true })
                          }
                        >
                          {t(user.is_active ? "users.deactivate" : "users.activate")}
                        </Button>
                      </span>
                    ),
                  ),
                ]}
              />
            )
          }
        </QueryView>
        {uninviting ? (
          <ConfirmAction
            title={t("users.uninviteTitle", { name: uninviting.username })}
            action={t("users.uninvite")}
            run={() =>
              unwrap(
                client.DELETE("/api/v1/users/{user_id}/invitation", { params: { path: { user_id: uninviting.id } } }),
              )
            }
            changes={["users"]}
            onClose={() => setUninviting(null)}
          >
            {t("users.uninviteText")}
          </ConfirmAction>
        ) : null}
        <Confirm
          opened={disabling !== null}
          onClose={() => setDisabling(null)}
          title={t("users.disableTitle", { name: disabling?.username ?? "" })}
          action={t("users.deactivate")}
          pending={patch.isPending}
          error={patch.error}
          onConfirm={() => disabling && patch.mutate({ id: disabling.id, is_active: false })}
        >
          {t(isService ? "users.disableServiceText" : "users.disableText")}
        </Confirm>
      </Section>
      {chosen ? <Tokens key={chosen.id} account={chosen} /> : null}
    </>
  );
}
