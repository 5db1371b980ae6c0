import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type RefObject, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { me, secrets } from "../../api/queries";
import { Code, Empty, Notice, Section } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { actions, type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import layout from "../../components/layout.module.css";
import { useMayManage } from "./access/mayManage";
import css from "./secrets.module.css";

type Secret = Schemas["SecretOut"];

/** The user's own secrets, or those of a project, which its maintainers and administrators change. */
export function Secrets({ project }: { project?: string }) {
  const user = useQuery(me).data;
  const [name, setName] = useState("");
  const value = useRef<HTMLTextAreaElement>(null);
  const mayManage = useMayManage(project);
  const mayChange = project === undefined ? user?.role !== "viewer" : mayManage;
  const replace = (of: string): void => {
    setName(of);
    value.current?.focus();
  };
  return (
    <>
      {mayChange ? <SecretForm project={project} name={name} onName={setName} valueRef={value} /> : null}
      <SecretList project={project} onReplace={mayChange ? replace : undefined} />
    </>
  );
}

/** Sets a secret. The value leaves the page with the request, and nothing brings it back. */
function SecretForm({
  project,
  name,
  onName,
  valueRef,
}: {
  project: string | undefined;
  name: string;
  onName: (name: string) => void;
  valueRef: RefObject<HTMLTextAreaElement | null>;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [value, setValue] = useState("");
  const set = useMutation({
    mutationFn: (body: Schemas["SecretIn"]) =>
      unwrap(
        project === undefined
          ? client.PUT("/api/v1/secrets/{name}", { params: { path: { name } }, body })
          : client.PUT("/api/v1/projects/{project}/secrets/{name}", { params: { path: { project, name } }, body }),
      ),
    // A finished mutation would keep the value in memory.
    gcTime: 0,
    onSuccess: async () => {
      setValue("");
      onName("");
      await queryClient.invalidateQueries({ queryKey: ["secrets", project ?? ""] });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    set.mutate({ value });
  };
  return (
    <Section title={t("secrets.create")}>
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>
        {t(project === undefined ? "secrets.lead" : "secrets.leadOfProject")}
      </p>
      <form onSubmit={submit} className={layout["fields"]} data-testid="secret-form">
        <TextInput
          label={t("secrets.name")}
          value={name}
          onChange={(e) => onName(e.currentTarget.value.toUpperCase())}
          required
          withAsterisk={false}
          maxLength={128}
          w={240}
          placeholder="HF_TOKEN"
          autoComplete="off"
          spellCheck={false}
        />
        <Textarea
          ref={valueRef}
          size="xs"
          className={css["value"]}
          label={t("secrets.value")}
          value={value}
          onChange={(e) => setValue(e.currentTarget.value)}
          required
          withAsterisk={false}
          rows={1}
          w={320}
          autoComplete="off"
          spellCheck={false}
        />
        <Button type="submit" loading={set.isPending} disabled={name === "" || value === ""}>
          {t("secrets.set")}
        </Button>
      </form>
      <p className={`dim ${layout["text"]} ${layout["aboveS"]}`}>{t("secrets.valueHint")}</p>
      {set.error ? <ErrorNotice error={set.error} /> : null}
      {set.data ? (
        <div className={layout["aboveXl"]} data-testid="secret-set">
          <Notice tone="ok" title={t("secrets.isSet", { name: set.data.name })} />
          <Code text={`environment: {secrets: [${set.data.name}]}`} />
        </div>
      ) : null}
    </Section>
  );
}

/** Names, times and people; without values. */
function SecretList({
  project,
  onReplace,
}: {
  project: string | undefined;
  onReplace: ((name: string) => void) | undefined;
}) {
  const { t } = useTranslation();
  const query = useQuery(secrets(project));
  const [deleting, setDeleting] = useState<Secret | null>(null);
  const remove = ({ name }: Secret) =>
    unwrap(
      project === undefined
        ? client.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } })
        : client.DELETE("/api/v1/projects/{project}/secrets/{name}", { params: { path: { project, name } } }),
    );
  const columns: Column<Secret>[] = [
    lead("name", t("secrets.name"), (secret) => <span className="mono">{secret.name}</span>),
    numeric("version", t("secrets.version"), (secret) => secret.version),
    column("changed", t("secrets.changed"), (secret) => <Ago at={secret.changed_at} />),
    column("by", t("secrets.by"), (secret) => secret.changed_by),
    column("used", t("secrets.used"), (secret) =>
      secret.last_used_at ? <Ago at={secret.last_used_at} /> : t("secrets.never"),
    ),
  ];
  if (onReplace) {
    columns.push(
      actions("actions", t("common.rowActions"), (secret) => (
        <span className={layout["inline"]}>
          <Button
            variant="subtle"
            size="compact-xs"
            onClick={() => onReplace(secret.name)}
            aria-label={t("secrets.replaceOf", { name: secret.name })}
          >
            {t("secrets.replace")}
          </Button>
          <Button
            variant="subtle"
            color="red"
            size="compact-xs"
            onClick={() => setDeleting(secret)}
            aria-label={t("secrets.deleteOf", { name: secret.name })}
          >
            {t("secrets.delete")}
          </Button>
        </span>
      )),
    );
  }
  const isOwn = project === undefined;
  return (
    <>
      <Section guide="guides/secrets" title={t("settings.tab.secrets")}>
        <QueryView query={query}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t(isOwn ? "secrets.none" : "secrets.noneOfProject")}>
                {t(isOwn ? "secrets.noneHint" : "secrets.noneOfProjectHint")}
              </Empty>
            ) : (
              <DataTable
                rows={data.items}
                rowKey={(secret) => secret.name}
                label={t("settings.tab.secrets")}
                testId="secrets"
                columns={columns}
              />
            )
          }
        </QueryView>
      </Section>
      {deleting ? (
        <ConfirmAction
          onClose={() => setDeleting(null)}
          title={t("secrets.deleteTitle", { name: deleting.name })}
          action={t("secrets.delete")}
          run={() => remove(deleting)}
          changes={["secrets", project ?? ""]}
        >
          {t("secrets.deleteText")}
        </ConfirmAction>
      ) : null}
    </>
  );
}
