import { Checkbox, NumberInput, PasswordInput, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { notificationOptions, type Target } from "../../../api/queries";
import { FormDialog } from "../../../components/dialogs/FormDialog";
import layout from "../../../components/layout.module.css";
import css from "./notifications.module.css";

export type TargetMade = Schemas["NotificationTargetMade"];
type MailServer = Schemas["MailServerIn"];
type Config = Schemas["NotificationTargetIn"]["config"];

const KINDS: readonly Target["kind"][] = ["email", "webhook", "apprise"];
/** Names that are the same in every language. */
const SECURITIES = [
  { value: "starttls", label: "STARTTLS" },
  { value: "tls", label: "TLS" },
] as const;
const DOCS = "https://appriseit.com/services/";

interface Draft {
  name: string;
  kind: Target["kind"];
  to: string;
  url: string;
  secret: string;
  ownServer: boolean;
  server: MailServer;
}

const FRESH: Draft = {
  name: "",
  kind: "email",
  to: "",
  url: "",
  secret: "",
  ownServer: false,
  server: { host: "", port: 587, security: "starttls", username: "", password: "", sender: "" },
};

function configOf(draft: Draft, ownServer: boolean): Config {
  const url = draft.url.trim();
  if (draft.kind === "webhook") return { kind: "webhook", url, secret: draft.secret.trim() || null };
  if (draft.kind === "apprise") return { kind: "apprise", url };
  const to = draft.to.split(/[,;\s]+/).filter(Boolean);
  return { kind: "email", to, server: ownServer ? draft.server : null };
}

type SetDraft = (changes: Partial<Draft>) => void;

/** Creates a target. What was typed leaves the page with the request, and nothing brings it back. */
export function NotificationTargetDialog({
  project,
  onMade,
  onClose,
}: {
  project: string | undefined;
  onMade: (made: TargetMade) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState(FRESH);
  const set: SetDraft = (changes) => setDraft({ ...draft, ...changes });
  const hasMailServer = useQuery(notificationOptions).data?.has_mail_server ?? true;
  const ownServer = draft.ownServer || !hasMailServer;
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/notifications/targets", {
          body: { name: draft.name.trim(), project: project ?? null, config: configOf(draft, ownServer) },
        }),
      ),
    gcTime: 0, // a finished mutation would keep the address in memory
    onSuccess: async (made) => {
      onMade(made);
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["notification-targets"] });
    },
  });
  return (
    <FormDialog
      title={t("notify.newTarget")}
      action={t("notify.create")}
      ready={draft.name.trim() !== ""}
      pending={create.isPending}
      error={create.error}
      testId="target-form"
      onSubmit={() => create.mutate()}
      onClose={onClose}
    >
      <SegmentedControl
        fullWidth
        aria-label={t("notify.kindOf")}
        value={draft.kind}
        onChange={(kind) => set({ kind, url: "" })}
        data={KINDS.map((value) => ({ value, label: t(`notify.targetKind.${value}`) }))}
      />
      <TextInput
        label={t("notify.name")}
        value={draft.name}
        onChange={(e) => set({ name: e.currentTarget.value })}
        required
        withAsterisk={false}
        maxLength={128}
        data-autofocus
      />
      {draft.kind === "email" ? (
        <EmailFields draft={draft} set={set} hasMailServer={hasMailServer} ownServer={ownServer} />
      ) : null}
      {draft.kind === "webhook" ? <WebhookFields draft={draft} set={set} /> : null}
      {draft.kind === "apprise" ? <AppriseField draft={draft} set={set} /> : null}
    </FormDialog>
  );
}

function WebhookFields({ draft, set }: { draft: Draft; set: SetDraft }) {
  const { t } = useTranslation();
  return (
    <>
      <TextInput
        label={t("notify.url")}
        description={t("notify.webhookHint")}
        value={draft.url}
        onChange={(e) => set({ url: e.currentTarget.value })}
        placeholder="https://example.com/hooks/muster"
        required
        withAsterisk={false}
        autoComplete="off"
        spellCheck={false}
      />
      <PasswordInput
        size="xs"
        label={t("notify.secret")}
        description={t("notify.secretHint")}
        value={draft.secret}
        onChange={(e) => set({ secret: e.currentTarget.value })}
        placeholder="whsec_…"
        autoComplete="off"
      />
    </>
  );
}

function AppriseField({ draft, set }: { draft: Draft; set: SetDraft }) {
  const { t } = useTranslation();
  const docs = (
    <>
      {t("notify.appriseHint")}{" "}
      <a href={DOCS} target="_blank" rel="noreferrer">
        {t("notify.appriseDocs")}
      </a>
    </>
  );
  return (
    <TextInput
      label={t("notify.appriseUrl")}
      description={docs}
      value={draft.url}
      onChange={(e) => set({ url: e.currentTarget.value })}
      placeholder="ntfy://ntfy.sh/my-topic"
      required
      withAsterisk={false}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

function EmailFields({
  draft,
  set,
  hasMailServer,
  ownServer,
}: {
  draft: Draft;
  set: SetDraft;
  hasMailServer: boolean;
  ownServer: boolean;
}) {
  const { t } = useTranslation();
  return (
    <>
      <TextInput
        label={t("notify.to")}
        description={t("notify.toHint")}
        value={draft.to}
        onChange={(e) => set({ to: e.currentTarget.value })}
        placeholder="ada@example.com"
        required
        withAsterisk={false}
      />
      {hasMailServer ? (
        <Checkbox
          size="xs"
          label={t("notify.ownServer")}
          checked={draft.ownServer}
          onChange={(e) => set({ ownServer: e.currentTarget.checked })}
        />
      ) : (
        <p className={`dim ${layout["text"]}`}>{t("notify.noServer")}</p>
      )}
      {ownServer ? <MailServerFields server={draft.server} onChange={(server) => set({ server })} /> : null}
    </>
  );
}

function MailServerFields({ server, onChange }: { server: MailServer; onChange: (server: MailServer) => void }) {
  const { t } = useTranslation();
  const set = (changes: Partial<MailServer>): void => onChange({ ...server, ...changes });
  return (
    <>
      <div className={css["server"]}>
        <TextInput
          label={t("notify.host")}
          value={server.host}
          onChange={(e) => set({ host: e.currentTarget.value.trim() })}
          placeholder="smtp.example.com"
          required
          withAsterisk={false}
        />
        <NumberInput
          label={t("notify.port")}
          value={server.port}
          onChange={(port) => set({ port: Number(port) })}
          min={1}
          max={65535}
          hideControls
        />
        <TextInput
          label={t("notify.sender")}
          type="email"
          value={server.sender}
          onChange={(e) => set({ sender: e.currentTarget.value.trim() })}
          placeholder="muster@example.com"
          required
          withAsterisk={false}
        />
        <Select
          label={t("notify.security")}
          value={server.security}
          onChange={(security) => set({ security: (security as MailServer["security"] | null) ?? "starttls" })}
          allowDeselect={false}
          data={[...SECURITIES, { value: "none", label: t("notify.noEncryption") }]}
        />
      </div>
      <TextInput
        label={t("notify.username")}
        value={server.username}
        onChange={(e) => set({ username: e.currentTarget.value })}
        autoComplete="off"
      />
      <PasswordInput
        size="xs"
        label={t("notify.password")}
        value={server.password}
        onChange={(e) => set({ password: e.currentTarget.value })}
        autoComplete="new-password"
      />
    </>
  );
}
