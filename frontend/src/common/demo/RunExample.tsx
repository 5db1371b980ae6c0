import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import layout from "../../components/layout.module.css";
import { ErrorNotice } from "../../components/QueryView";
import { runExample } from "./demo";

/** One click from nothing to a run whose loss moves. For who may submit. */
export function RunExample() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const run = useMutation({
    mutationFn: runExample,
    onSuccess: async ({ id }) => {
      await navigate({ to: "/experiments/$experimentId", params: { experimentId: String(id) } });
      await queryClient.invalidateQueries({ queryKey: ["experiments"] });
    },
  });
  return (
    <div className={`${layout["stack"]} ${layout["atStart"]}`}>
      <Button loading={run.isPending} onClick={() => run.mutate()} data-testid="run-example">
        {t("first.run")}
      </Button>
      {run.error ? <ErrorNotice error={run.error} onRetry={() => run.mutate()} /> : null}
    </div>
  );
}
