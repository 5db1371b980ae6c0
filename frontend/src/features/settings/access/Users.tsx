import { Button, PasswordInput, SegmentedControl, Select, TextInput } from "@mantine/core";
import { type QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, users } from "../../../api/queries";
import { Empty, Section } from "../../../components/basics";
import { Confirm } from "../../../components/dialogs/Confirm";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Ago } from "../../../components/Time";
import { MIN_PASSWORD } from "../../../lib/access";
import { type Role, ROLES } from "./roles";
import { Tokens } from "./Tokens";
import layout from "../../../components/layout.module.css";

type User = Schemas["UserOut"];

export function Users() {
  return (
    <>
      <UserForm />
      <UserList kind="person" />
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

/** Creates a user with a first password, or a service account, which has none. */
function UserForm() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [kind, setKind] = useState<User["kind"]>("person");
  const [description, setDescription] = useState("");
  const isService = kind === "service";
  const options = useRoleOptions(kind);
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/users", {
          body: { username, role, kind, description, password: isService ? undefined : password },
        }),
      ),
    onSuccess: async () => {
      setUsername("");
      setPassword("");
      setDescription("");
      await refreshUsers(queryClient);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate();
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
          <PasswordInput
            size="xs"
            label={t("users.firstPassword")}
            value={password}
            onChange={(e) => setPassword(e.currentTarget.value)}
            required
            withAsterisk={false}
            error={
              password !== "" && password.length < MIN_PASSWORD ? t("setup.tooShort", { n: MIN_PASSWORD }) : undefined
            }
            w={220}
            autoComplete="new-password"
            visibilityToggleButtonProps={{ "aria-label": t("auth.showPassword") }}
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
        <Button
          type="submit"
          loading={create.isPending}
          disabled={username === "" || (!isService && password.length < MIN_PASSWORD)}
        >
          {t(isService ? "users.createService" : "users.createButton")}
        </Button>
      </form>
      {create.error ? <ErrorNotice error={create.error} /> : null}
    </Section>
  );
}

/** People or service accounts; all but oneself can be given another role or be deactivated. */
function UserList({ kind }: { kind: User["kind"] }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const self = useQuery(me).data;
  const query = useQuery(users);
  const options = useRoleOptions(kind);
  const isService = kind === "service";
  const title = t(isService ? "users.services" : "settings.tab.users");
  const [shown, setShown] = useState<number | null>(null);
  const [disabling, setDisabling] = useState<User | null>(null);
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
                        user.last_login_at ? <Ago at={user.last_login_at} /> : t("tokens.never"),
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
