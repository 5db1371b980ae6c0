import { Button, Switch } from "@mantine/core";
import type { TFunction } from "i18next";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { notificationRules, notificationTargets, type Rule, type Target } from "../../../api/queries";
import { Empty, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { actions, type Column, column, DataTable, lead } from "../../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import layout from "../../../components/layout.module.css";
import { useTitles } from "../../../lib/catalog";
import { NotificationRuleDialog } from "./NotificationRuleDialog";
import css from "./notifications.module.css";

const path = (rule: Rule) => ({ params: { path: { rule_id: rule.id } } });

/** Which events are told, and where. */
export function NotificationRules({ project, mayChange }: { project: string | undefined; mayChange: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(notificationRules(project));
  const [edited, setEdited] = useState<Rule | "new" | null>(null);
  const isOwn = project === undefined;
  const button = (
    <Button size="compact-sm" variant="default" onClick={() => setEdited("new")} data-testid="new-rule">
      {t("notify.newRule")}
    </Button>
  );
  return (
    <Section
      guide="guides/notifications"
      title={t(isOwn ? "notify.rules" : "notify.rulesOfProject")}
      note={mayChange ? button : null}
      testId="notification-rules"
    >
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>
        {t(isOwn ? "notify.rulesLead" : "notify.rulesLeadOfProject")}
      </p>
      <QueryView query={query}>
        {(data) =>
          data.items.length === 0 ? (
            <Empty title={t(isOwn ? "notify.noRules" : "notify.noRulesOfProject")}>
              {t(isOwn ? "notify.noRulesHint" : "notify.noRulesOfProjectHint")}
            </Empty>
          ) : (
            <RuleTable rules={data.items} project={project} onEdit={mayChange ? setEdited : undefined} />
          )
        }
      </QueryView>
      {edited ? (
        <NotificationRuleDialog
          project={project}
          rule={edited === "new" ? null : edited}
          onClose={() => setEdited(null)}
        />
      ) : null}
    </Section>
  );
}

function experimentsOf(t: TFunction, rule: Rule): string {
  if (rule.owner_project !== null) return t("notify.everybody");
  if (rule.project === null) return t(rule.whose === "mine" ? "notify.mine" : "notify.everybody");
  return t(rule.whose === "mine" ? "notify.mineIn" : "notify.everybodyIn", { project: rule.project });
}

function recipientsOf(t: TFunction, rule: Rule, targets: readonly Target[]): string[] {
  const names = rule.target_ids.map((id) => targets.find((target) => target.id === id)?.name ?? `#${id}`);
  return rule.inbox ? [t("notify.inbox"), ...names] : names;
}

function RuleTable({
  rules,
  project,
  onEdit,
}: {
  rules: readonly Rule[];
  project: string | undefined;
  onEdit: ((rule: Rule) => void) | undefined;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const targets = useQuery(notificationTargets(project)).data?.items ?? [];
  const { event } = useTitles();
  const eventsOf = (rule: Rule): string => rule.kinds.map(event).join(t("notify.comma"));
  const [deleting, setDeleting] = useState<Rule | null>(null);
  const change = useMutation({
    mutationFn: ({ rule, body }: { rule: Rule; body: Schemas["NotificationRulePatch"] }) =>
      unwrap(client.PATCH("/api/v1/notifications/rules/{rule_id}", { ...path(rule), body })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["notification-rules"] }),
  });
  const columns: Column<Rule>[] = [
    lead("events", t("notify.events"), (rule) => eventsOf(rule)),
    column("experiments", t("notify.experiments"), (rule) => experimentsOf(t, rule)),
    column("to", t("notify.sendTo"), (rule) => recipientsOf(t, rule, targets).join(t("notify.comma"))),
    column("active", t("notify.active"), (rule) => (
      <Switch
        size="xs"
        checked={rule.is_enabled}
        disabled={!onEdit || change.isPending}
        onChange={(e) => change.mutate({ rule, body: { is_enabled: e.currentTarget.checked } })}
        aria-label={t("notify.activeOf", { events: eventsOf(rule) })}
      />
    )),
  ];
  if (onEdit)
    columns.push(
      actions("actions", t("common.rowActions"), (rule) => (
        <RuleActions events={eventsOf(rule)} onEdit={() => onEdit(rule)} onDelete={() => setDeleting(rule)} />
      )),
    );
  return (
    <>
      {change.error ? <ErrorNotice error={change.error} /> : null}
      <DataTable rows={rules} rowKey={(rule) => rule.id} label={t("notify.rules")} columns={columns} testId="rules" />
      {deleting ? (
        <ConfirmAction
          onClose={() => setDeleting(null)}
          title={t("notify.deleteRule")}
          action={t("notify.delete")}
          run={() => unwrap(client.DELETE("/api/v1/notifications/rules/{rule_id}", path(deleting)))}
          changes={["notification-rules"]}
        >
          {t("notify.deleteRuleText", { events: eventsOf(deleting) })}
        </ConfirmAction>
      ) : null}
    </>
  );
}

function RuleActions({ events, onEdit, onDelete }: { events: string; onEdit: () => void; onDelete: () => void }) {
  const { t } = useTranslation();
  return (
    <span className={css["actions"]}>
      <Button variant="subtle" size="compact-xs" onClick={onEdit} aria-label={t("notify.editOf", { events })}>
        {t("common.edit")}
      </Button>
      <Button
        variant="subtle"
        color="red"
        size="compact-xs"
        onClick={onDelete}
        aria-label={t("notify.deleteRuleOf", { events })}
      >
        {t("notify.delete")}
      </Button>
    </span>
  );
}
