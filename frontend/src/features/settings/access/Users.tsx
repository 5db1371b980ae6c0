import { Button, PasswordInput, Select, TextInput } from "@mantine/core";
import { type QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, users } from "../../../api/queries";
import { Section } from "../../../components/basics";
import { Confirm } from "../../../components/dialogs/Confirm";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Ago } from "../../../components/Time";
import { MIN_PASSWORD } from "../../../lib/access";
import { type Role, ROLES } from "./roles";
import layout from "../../../components/layout.module.css";

type User = Schemas["UserOut"];

export function Users() {
  return (
    <>
      <UserForm />
      <UserList />
    </>
  );
}

const refreshUsers = (queryClient: QueryClient) => queryClient.invalidateQueries({ queryKey: ["users"] });

function useRoleOptions(): { value: Role; label: string }[] {
  const { t } = useTranslation();
  return ROLES.map((value) => ({ value, label: t(`role.${value}`) }));
}

/** Creates a user with a first password. */
function UserForm() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState<Role>("member");
  const options = useRoleOptions();
  const create = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/users", { body: { username, password, role } })),
    onSuccess: async () => {
      setUsername("");
      setPassword("");
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
        <TextInput
          label={t("auth.username")}
          value={username}
          onChange={(e) => setUsername(e.currentTarget.value)}
          required
          withAsterisk={false}
          w={180}
          autoComplete="off"
        />
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
        <Select
          label={t("settings.role")}
          value={role}
          onChange={(value) => setRole((value as Role | null) ?? "member")}
          allowDeselect={false}
          data={options}
          w={140}
        />
        <Button type="submit" loading={create.isPending} disabled={username === "" || password.length < MIN_PASSWORD}>
          {t("users.createButton")}
        </Button>
      </form>
      {create.error ? <ErrorNotice error={create.error} /> : null}
    </Section>
  );
}

/** Every user; all but oneself can be given another role or be deactivated. */
function UserList() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const self = useQuery(me).data;
  const query = useQuery(users);
  const options = useRoleOptions();
  const [disabling, setDisabling] = useState<User | null>(null);
  const patch = useMutation({
    mutationFn: ({ id, ...body }: { id: number; role?: Role; is_active?: boolean }) =>
      unwrap(client.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: id } }, body })),
    onSuccess: async () => {
      setDisabling(null);
      await refreshUsers(queryClient);
    },
  });
  return (
    <Section guide="guides/operations#users" title={t("settings.tab.users")}>
      {patch.error && !disabling ? <ErrorNotice error={patch.error} /> : null}
      <QueryView query={query}>
        {(data) => (
          <DataTable<User>
            rows={data.items}
            rowKey={(user: User) => user.id}
            label={t("settings.tab.users")}
            testId="users"
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
              column("active", t("users.active"), (user) => t(user.is_active ? "users.isActive" : "users.isOff")),
              column("seen", t("users.lastLogin"), (user) =>
                user.last_login_at ? <Ago at={user.last_login_at} /> : t("tokens.never"),
              ),
              actions("toggle", t("common.rowActions"), (user) =>
                user.id === self?.id ? (
                  ""
                ) : (
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
                ),
              ),
            ]}
          />
        )}
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
        {t("users.disableText")}
      </Confirm>
    </Section>
  );
}
