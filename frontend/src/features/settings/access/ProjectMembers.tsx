import { Button, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, type Project, projectMembers } from "../../../api/queries";
import { useMayManage } from "./mayManage";
import { Empty, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { ErrorNotice } from "../../../components/QueryView";
import { actions, type Column, column, lead } from "../../../components/tables/DataTable";
import { PagedList } from "../../../components/tables/PagedTable";
import { Ago } from "../../../components/Time";
import layout from "../../../components/layout.module.css";

type Member = Schemas["ProjectMemberOut"];
type Kind = Member["kind"];
type ProjectRole = Member["role"];
const ROLES: readonly ProjectRole[] = ["viewer", "member", "maintainer"];

/** Writes the role of a user or a group in a project. */
const write = (project: string, { kind, name, role }: Pick<Member, "kind" | "name" | "role">) =>
  unwrap(
    kind === "user"
      ? client.PUT("/api/v1/projects/{project}/members/users/{username}", {
          params: { path: { project, username: name } },
          body: { role },
        })
      : client.PUT("/api/v1/projects/{project}/members/groups/{group}", {
          params: { path: { project, group: name } },
          body: { role },
        }),
  );

const erase = (project: string, { kind, name }: Member) =>
  unwrap(
    kind === "user"
      ? client.DELETE("/api/v1/projects/{project}/members/users/{username}", {
          params: { path: { project, username: name } },
        })
      : client.DELETE("/api/v1/projects/{project}/members/groups/{group}", {
          params: { path: { project, group: name } },
        }),
  );

/** Who sees a project and who submits to it, and the users and groups that are its members. */
export function ProjectMembers({ project }: { project: Project }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(projectMembers(project.name));
  const mayChange = useMayManage(project.name);
  const [removed, setRemoved] = useState<Member | null>(null);
  const queryClient = useQueryClient();
  const changed = () => queryClient.invalidateQueries({ queryKey: ["projects"] });
  const setRole = useMutation({
    mutationFn: (member: Member) => write(project.name, member),
    onSuccess: changed,
  });
  const columns: Column<Member>[] = [
    lead("name", t("projects.name"), ({ kind, name }) => (
      <>
        <b>{name}</b> {kind === "group" ? <span className="dim">{t("members.group")}</span> : null}
      </>
    )),
    column("role", t("settings.role"), (member) =>
      mayChange ? (
        <RoleSelect
          label={t("users.roleOf", { name: member.name })}
          role={member.role}
          onChange={(role) => setRole.mutate({ ...member, role })}
        />
      ) : (
        t(`members.role.${member.role}`)
      ),
    ),
    column("added", t("members.added"), ({ added_at }) => <Ago at={added_at} />),
    column("by", t("members.by"), ({ added_by }) => added_by),
    ...(mayChange
      ? [
          actions<Member>("remove", t("common.rowActions"), (member) => (
            <Button variant="subtle" color="red" size="compact-xs" onClick={() => setRemoved(member)}>
              {t("members.remove")}
            </Button>
          )),
        ]
      : []),
  ];
  return (
    <Section guide="guides/projects#add-people" title={t("members.title")} testId="members">
      <div className={layout["rows"]}>
        <Openness project={project} what="visibility" onChanged={changed} />
        <Openness project={project} what="submission" onChanged={changed} />
      </div>
      {mayChange ? <MemberForm project={project.name} onChanged={changed} /> : null}
      {setRole.error ? <ErrorNotice error={setRole.error} /> : null}
      <PagedList
        query={query}
        empty={<Empty title={t("members.none")} />}
        columns={columns}
        rowKey={({ kind, name }) => `${kind} ${name}`}
        label={t("members.title")}
      />
      {removed === null ? null : (
        <ConfirmAction
          title={t("members.removeTitle", { name: removed.name, project: project.name })}
          action={t("members.remove")}
          run={() => erase(project.name, removed)}
          changes={["projects"]}
          onClose={() => setRemoved(null)}
        >
          {t("members.removeText")}
        </ConfirmAction>
      )}
    </Section>
  );
}

/** For whom the project is open, in a sentence; administrators change it. */
function Openness({
  project,
  what,
  onChanged,
}: {
  project: Project;
  what: "visibility" | "submission";
  onChanged: () => Promise<unknown>;
}) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const change = useMutation({
    mutationFn: (audience: Project["submission"]) =>
      unwrap(
        client.PATCH("/api/v1/projects/{name}", {
          params: { path: { name: project.name } },
          body: { restart_count: false, [what]: audience },
        }),
      ),
    onSuccess: onChanged,
  });
  const other = project[what] === "all" ? "members" : "all";
  return (
    <>
      <p className={layout["text"]}>
        {t(`members.${what}.${project[what]}`)}{" "}
        {user?.role === "admin" ? (
          <Button
            variant="default"
            size="compact-xs"
            loading={change.isPending}
            onClick={() => change.mutate(other)}
            data-testid={what}
          >
            {t(`members.open.${what}.${other}`)}
          </Button>
        ) : null}
      </p>
      {change.error ? <ErrorNotice error={change.error} /> : null}
    </>
  );
}

function MemberForm({ project, onChanged }: { project: string; onChanged: () => Promise<unknown> }) {
  const { t } = useTranslation();
  const [kind, setKind] = useState<Kind>("user");
  const [name, setName] = useState("");
  const [role, setRole] = useState<ProjectRole>("member");
  const add = useMutation({
    mutationFn: () => write(project, { kind, name: name.trim(), role }),
    onSuccess: async () => {
      setName("");
      await onChanged();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <>
      <form onSubmit={submit} className={layout["fields"]} style={{ marginBottom: 12 }} data-testid="member-form">
        <Select
          label={t("members.kind")}
          value={kind}
          onChange={(value) => setKind(value === "group" ? "group" : "user")}
          allowDeselect={false}
          data={[
            { value: "user", label: t("members.user") },
            { value: "group", label: t("members.group") },
          ]}
          w={110}
        />
        <TextInput
          label={t("projects.name")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          maxLength={64}
          autoComplete="off"
          w={180}
        />
        <RoleSelect label={t("settings.role")} isLabelShown role={role} onChange={setRole} />
        <Button type="submit" loading={add.isPending} disabled={name.trim() === ""}>
          {t("members.add")}
        </Button>
      </form>
      {add.error ? <ErrorNotice error={add.error} /> : null}
    </>
  );
}

function RoleSelect({
  label,
  isLabelShown = false,
  role,
  onChange,
}: {
  label: string;
  isLabelShown?: boolean;
  role: ProjectRole;
  onChange: (role: ProjectRole) => void;
}) {
  const { t } = useTranslation();
  return (
    <Select
      {...(isLabelShown ? { label } : { "aria-label": label })}
      value={role}
      onChange={(value) => {
        const chosen = ROLES.find((it) => it === value);
        if (chosen) onChange(chosen);
      }}
      allowDeselect={false}
      data={ROLES.map((value) => ({ value, label: t(`members.role.${value}`) }))}
      w={140}
    />
  );
}
