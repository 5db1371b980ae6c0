import { Checkbox, Select } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { catalog, type Kind, me, notificationTargets, projects, type Rule } from "../../../api/queries";
import { FormDialog } from "../../../components/dialogs/FormDialog";
import { QueryView } from "../../../components/QueryView";
import layout from "../../../components/layout.module.css";
import { useTitles } from "../../../lib/catalog";
import css from "./notifications.module.css";

/** Value of the box for the inbox, among the ids of targets. */
const INBOX = "inbox";

interface Draft {
  kinds: Kind[];
  whose: Rule["whose"];
  project: string | null;
  inbox: boolean;
  target_ids: number[];
}

const fresh = (project: string | undefined): Draft => ({
  kinds: ["trial.failed", "experiment.ended"],
  whose: "mine",
  project: null,
  inbox: project === undefined,
  target_ids: [],
});

const draftOf = ({ kinds, whose, project, inbox, target_ids }: Rule): Draft => ({
  kinds,
  whose,
  project,
  inbox,
  target_ids,
});

const toggled = <T,>(list: readonly T[], one: T): T[] =>
  list.includes(one) ? list.filter((other) => other !== one) : [...list, one];

/** Creates a rule, or changes one. */
export function NotificationRuleDialog({
  project,
  rule,
  onClose,
}: {
  project: string | undefined;
  rule: Rule | null;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState<Draft>(() => (rule ? draftOf(rule) : fresh(project)));
  const set = (changes: Partial<Draft>): void => setDraft({ ...draft, ...changes });
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        rule
          ? client.PATCH("/api/v1/notifications/rules/{rule_id}", {
              params: { path: { rule_id: rule.id } },
              body: draft,
            })
          : client.POST("/api/v1/notifications/rules", {
              body: { ...draft, owner_project: project ?? null, is_enabled: true },
            }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["notification-rules"] });
    },
  });
  const reachesNobody = !draft.inbox && draft.target_ids.length === 0;
  return (
    <FormDialog
      title={t(rule ? "notify.editRule" : "notify.newRule")}
      action={t(rule ? "common.save" : "notify.create")}
      ready={draft.kinds.length > 0 && !reachesNobody}
      pending={save.isPending}
      error={save.error}
      size="lg"
      testId="rule-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Kinds kinds={draft.kinds} ofProject={project !== undefined} onChange={(kinds) => set({ kinds })} />
      {project === undefined ? <Scope draft={draft} onChange={set} /> : null}
      <Recipients draft={draft} project={project} onChange={set} />
      {reachesNobody ? <p className={`dim ${layout["text"]}`}>{t("notify.nobody")}</p> : null}
    </FormDialog>
  );
}

function Kinds({
  kinds,
  ofProject,
  onChange,
}: {
  kinds: Kind[];
  ofProject: boolean;
  onChange: (kinds: Kind[]) => void;
}) {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin" && !ofProject;
  const { event } = useTitles();
  return (
    <QueryView query={useQuery(catalog)}>
      {({ notified_events }) => (
        <Checkbox.Group size="xs" label={t("notify.events")} value={kinds}>
          <div className={css["kinds"]}>
            {notified_events
              .filter(({ kind, is_cluster }) => isAdmin || !is_cluster || kinds.includes(kind))
              .map(({ kind }) => (
                <Checkbox
                  key={kind}
                  size="xs"
                  value={kind}
                  label={event(kind)}
                  onChange={() => onChange(toggled(kinds, kind))}
                />
              ))}
          </div>
        </Checkbox.Group>
      )}
    </QueryView>
  );
}

function Scope({ draft, onChange }: { draft: Draft; onChange: (changes: Partial<Draft>) => void }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(projects);
  const names = query.data?.pages.flatMap((page) => page.items.map(({ name }) => name)) ?? [];
  const known = draft.project === null || names.includes(draft.project) ? names : [...names, draft.project];
  return (
    <div className={layout["fields"]}>
      <Select
        label={t("notify.experiments")}
        value={draft.whose}
        onChange={(whose) => onChange({ whose: whose === "all" ? "all" : "mine" })}
        allowDeselect={false}
        data={[
          { value: "mine", label: t("notify.mine") },
          { value: "all", label: t("notify.everybody") },
        ]}
        w={180}
      />
      <Select
        label={t("notify.project")}
        value={draft.project ?? ""}
        onChange={(project) => onChange({ project: project === "" ? null : project })}
        allowDeselect={false}
        searchable
        data={[{ value: "", label: t("notify.everyProject") }, ...known]}
        w={220}
      />
    </div>
  );
}

function Recipients({
  draft,
  project,
  onChange,
}: {
  draft: Draft;
  project: string | undefined;
  onChange: (changes: Partial<Draft>) => void;
}) {
  const { t } = useTranslation();
  const targets = useQuery(notificationTargets(project)).data?.items ?? [];
  return (
    <Checkbox.Group
      size="xs"
      label={t("notify.sendTo")}
      value={[...(draft.inbox ? [INBOX] : []), ...draft.target_ids.map(String)]}
    >
      <div className={css["kinds"]}>
        {project === undefined ? (
          <Checkbox
            size="xs"
            label={t("notify.inbox")}
            value={INBOX}
            onChange={() => onChange({ inbox: !draft.inbox })}
          />
        ) : null}
        {targets.map((target) => (
          <Checkbox
            key={target.id}
            size="xs"
            value={String(target.id)}
            label={target.name}
            onChange={() => onChange({ target_ids: toggled(draft.target_ids, target.id) })}
          />
        ))}
      </div>
      {targets.length === 0 ? (
        <p className={`dim ${layout["text"]} ${layout["aboveS"]}`}>{t("notify.noTargetYet")}</p>
      ) : null}
    </Checkbox.Group>
  );
}
