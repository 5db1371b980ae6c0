import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { type ExperimentDetail, me } from "../../api/queries";
import { Section } from "../../components/basics";
import { BudgetBars } from "../../components/BudgetBars";
import { BudgetDialog } from "../../components/dialogs/BudgetDialog";
import { mayChange } from "../../lib/access";
import { isTerminal } from "../../lib/states";

/** What an experiment has spent of what it may, and the form that changes it. */
export function BudgetSection({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const [editing, setEditing] = useState(false);
  const save = useMutation({
    mutationFn: (body: Schemas["Budget"] | null) =>
      unwrap(
        client.PUT("/api/v1/experiments/{experiment_id}/budget", {
          params: { path: { experiment_id: data.id } },
          body: body ?? { alert_at: [] },
        }),
      ),
    onSuccess: async () => {
      setEditing(false);
      await queryClient.invalidateQueries({ queryKey: ["experiment", data.id] });
    },
  });
  const edit =
    mayChange(user, data.owner) && !isTerminal(data.state) ? (
      <Button variant="subtle" size="compact-xs" onClick={() => setEditing(true)} data-testid="edit-budget">
        {t(data.budget ? "budget.edit" : "budget.add")}
      </Button>
    ) : null;
  return (
    <Section guide="guides/managing#budgets" title={t("budget.title")} note={edit}>
      <BudgetBars budget={data.budget} spending={data.spending} atLimit={t("budget.experimentAt100")} />
      {editing ? (
        <BudgetDialog
          title={t("budget.title")}
          text={`${t("budget.at100")}: ${t("budget.experimentAt100")}`}
          budget={data.budget}
          currency={data.spending.currency}
          lengths
          pending={save.isPending}
          error={save.error}
          onSave={(body) => save.mutate(body)}
          onClose={() => setEditing(false)}
        />
      ) : null}
    </Section>
  );
}
