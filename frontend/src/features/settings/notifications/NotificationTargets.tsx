import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { notificationOptions, notificationTargets, type Target } from "../../../api/queries";
import { Code, Empty, Notice, Section } from "../../../components/basics";
import { Confirm } from "../../../components/dialogs/Confirm";
import { actions, type Column, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Ago, Until } from "../../../components/Time";
import layout from "../../../components/layout.module.css";
import ui from "../../../components/ui.module.css";
import { NotificationHistory } from "./NotificationHistory";
import { NotificationTargetDialog, type TargetMade } from "./NotificationTargetDialog";
import css from "./notifications.module.css";

type Asked = "history" | "disable" | "delete";

/** Places outside Muster that are told: with a test, the state and the history of each. */
export function NotificationTargets({ project, mayChange }: { project: string | undefined; mayChange: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(notificationTargets(project));
  const isEncrypted = useQuery(notificationOptions).data?.is_encrypted ?? true;
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<TargetMade | null>(null);
  const isOwn = project === undefined;
  const button = (
    <Button size="compact-sm" variant="default" onClick={() => setAdding(true)} data-testid="new-target">
      {t("notify.newTarget")}
    </Button>
  );
  return (
    <Section
      guide="guides/notifications#add-a-webhook"
      title={t(isOwn ? "notify.targets" : "notify.targetsOfProject")}
      note={mayChange && isEncrypted ? button : null}
      testId="notification-targets"
    >
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>
        {t(isEncrypted ? "notify.targetsLead" : "notify.off")}
      </p>
      {made ? <Made made={made} /> : null}
      <QueryView query={query}>
        {(data) =>
          data.items.length === 0 ? (
            <Empty title={t(isOwn ? "notify.noTargets" : "notify.noTargetsOfProject")}>
              {t(isOwn ? "notify.noTargetsHint" : "notify.noTargetsOfProjectHint")}
            </Empty>
          ) : (
            <TargetTable targets={data.items} mayChange={mayChange} />
          )
        }
      </QueryView>
      {adding ? <NotificationTargetDialog project={project} onMade={setMade} onClose={() => setAdding(false)} /> : null}
    </Section>
  );
}

/** What was just created, with the secret that nothing shows again. */
function Made({ made }: { made: TargetMade }) {
  const { t } = useTranslation();
  return (
    <div className={layout["belowXl"]} data-testid="target-made">
      <Notice tone="ok" title={t("notify.created", { name: made.target.name })} />
      {made.secret ? (
        <>
          <p className={`${layout["text"]} ${layout["aboveS"]}`}>{t("notify.secretOnce")}</p>
          <Code text={made.secret} wrap testId="target-secret" />
        </>
      ) : null}
    </div>
  );
}

/** What can be done to a target. `onChanged` follows each change. */
function useTargetMutations(onChanged: () => void) {
  const queryClient = useQueryClient();
  const path = (target: Target) => ({ params: { path: { target_id: target.id } } });
  const onSuccess = async (): Promise<void> => {
    onChanged();
    await queryClient.invalidateQueries({ queryKey: ["notification-targets"] });
    await queryClient.invalidateQueries({ queryKey: ["notification-rules"] });
  };
  const enable = useMutation({
    mutationFn: ({ target, isEnabled }: { target: Target; isEnabled: boolean }) =>
      unwrap(
        client.PATCH("/api/v1/notifications/targets/{target_id}", { ...path(target), body: { is_enabled: isEnabled } }),
      ),
    onSuccess,
  });
  const remove = useMutation({
    mutationFn: (target: Target) => unwrap(client.DELETE("/api/v1/notifications/targets/{target_id}", path(target))),
    onSuccess,
  });
  const test = useMutation({
    mutationFn: (target: Target) => unwrap(client.POST("/api/v1/notifications/targets/{target_id}/test", path(target))),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["notification-targets"] }),
  });
  return { enable, remove, test };
}

function TargetTable({ targets, mayChange }: { targets: readonly Target[]; mayChange: boolean }) {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<{ what: Asked; target: Target } | null>(null);
  const close = (): void => setAsked(null);
  const { enable, remove, test } = useTargetMutations(close);
  const name = asked?.target.name ?? "";
  const onTest = (target: Target): void =>
    test.mutate(target, { onSuccess: () => setAsked({ what: "history", target }) });
  const columns: Column<Target>[] = [
    lead("name", t("notify.name"), (target) => target.name),
    column("kind", t("notify.kindOf"), (target) => t(`notify.targetKind.${target.kind}`)),
    column("to", t("notify.to"), (target) => <span className={css["error"]}>{target.summary}</span>),
    column("status", t("notify.status"), (target) => <Status target={target} />),
    column("sent", t("notify.lastSent"), (target) =>
      target.last_sent_at ? <Ago at={target.last_sent_at} /> : t("notify.never"),
    ),
    actions("actions", t("common.rowActions"), (target) => (
      <TargetActions
        target={target}
        mayChange={mayChange}
        onTest={() => onTest(target)}
        onEnable={() => enable.mutate({ target, isEnabled: true })}
        onAsk={(what) => setAsked({ what, target })}
      />
    )),
  ];
  return (
    <>
      {test.error ? <ErrorNotice error={test.error} /> : null}
      {enable.error && asked === null ? <ErrorNotice error={enable.error} /> : null}
      <DataTable
        rows={targets}
        rowKey={({ id }) => id}
        label={t("notify.targets")}
        columns={columns}
        testId="targets"
      />
      {asked?.what === "history" ? <NotificationHistory target={asked.target} onClose={close} /> : null}
      <Confirm
        opened={asked?.what === "disable"}
        onClose={close}
        title={t("notify.disableTitle", { name })}
        action={t("notify.disable")}
        danger={false}
        pending={enable.isPending}
        error={enable.error}
        onConfirm={() => asked && enable.mutate({ target: asked.target, isEnabled: false })}
      >
        {t("notify.disableText")}
      </Confirm>
      <Confirm
        opened={asked?.what === "delete"}
        onClose={close}
        title={t("notify.deleteTarget", { name })}
        action={t("notify.delete")}
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() => asked && remove.mutate(asked.target)}
      >
        {t("notify.deleteTargetText")}
      </Confirm>
    </>
  );
}

function TargetActions({
  target,
  mayChange,
  onTest,
  onEnable,
  onAsk,
}: {
  target: Target;
  mayChange: boolean;
  onTest: () => void;
  onEnable: () => void;
  onAsk: (what: Asked) => void;
}) {
  const { t } = useTranslation();
  const name = target.name;
  const button = (label: string, full: string, onClick: () => void, color?: string) => (
    <Button variant="subtle" size="compact-xs" color={color} onClick={onClick} aria-label={full}>
      {label}
    </Button>
  );
  return (
    <span className={css["actions"]}>
      {mayChange && target.is_enabled ? button(t("notify.test"), t("notify.testOf", { name }), onTest) : null}
      {button(t("notify.history"), t("notify.historyOf", { name }), () => onAsk("history"))}
      {mayChange && target.is_enabled
        ? button(t("notify.disable"), t("notify.disableOf", { name }), () => onAsk("disable"), "gray")
        : null}
      {mayChange && !target.is_enabled ? button(t("notify.enable"), t("notify.enableOf", { name }), onEnable) : null}
      {mayChange
        ? button(t("notify.delete"), t("notify.deleteTargetOf", { name }), () => onAsk("delete"), "red")
        : null}
    </span>
  );
}

function Status({ target }: { target: Target }) {
  const { t } = useTranslation();
  const [tone, word] = look(target);
  const reason = target.is_enabled ? target.last_error : target.disabled_reason;
  return (
    <span className={css["status"]}>
      <span className={ui["badge"]} data-tone={tone}>
        {word === "failing" ? t("notify.failing", { count: target.num_failures }) : t(`notify.${word}`)}
      </span>
      {target.num_waiting > 0 ? <span>{t("notify.waiting", { count: target.num_waiting })}</span> : null}
      {target.num_dropped > 0 ? <span>{t("notify.dropped", { count: target.num_dropped })}</span> : null}
      {reason ? <span className={`dim ${css["error"]}`}>{reason}</span> : null}
      {target.is_enabled && target.next_try_at ? (
        <span className="dim">
          {t("notify.next")} <Until at={target.next_try_at} />
        </span>
      ) : null}
    </span>
  );
}

function look(target: Target): [tone: string, word: "disabled" | "failing" | "ok" | "unused"] {
  if (!target.is_enabled) return ["idle", "disabled"];
  if (target.num_failures > 0) return ["bad", "failing"];
  return target.last_sent_at ? ["ok", "ok"] : ["idle", "unused"];
}
