import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { DELETING } from "../../api/liveHooks";
import { me } from "../../api/queries";
import { Notice } from "../../components/basics";
import { Confirm } from "../../components/dialogs/Confirm";
import layout from "../../components/layout.module.css";
import { ErrorNotice } from "../../components/QueryView";
import { demoExperiments, loadDemo, removeDemo } from "./demo";

/** One click for experiments to look at. Offered where there are none. */
export function LoadDemo() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const load = useMutation({
    mutationFn: loadDemo,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["experiments"] }),
  });
  if (useQuery(me).data?.role === "viewer") return null;
  return (
    <div className={`${layout["stack"]} ${layout["atStart"]}`}>
      <Button variant="default" loading={load.isPending} onClick={() => load.mutate()} data-testid="load-demo">
        {t("demo.load")}
      </Button>
      {load.error ? <ErrorNotice error={load.error} onRetry={() => load.mutate()} /> : null}
    </div>
  );
}

/** While the demo's experiments are there: what they are, and the way to be rid of them. */
export function DemoNotice() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [asks, setAsks] = useState(false);
  const { data: loaded = [] } = useQuery({ queryKey: ["experiments", "demo"], queryFn: demoExperiments });
  const remove = useMutation({
    mutationKey: DELETING,
    mutationFn: removeDemo,
    onSuccess: () => setAsks(false),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["experiments"] }),
  });
  const user = useQuery(me).data;
  if (loaded.length === 0 || user?.role === "viewer") return null;
  return (
    <>
      <Notice
        title={t("demo.loaded", { count: loaded.length })}
        action={
          <Button size="compact-xs" variant="default" onClick={() => setAsks(true)} data-testid="remove-demo">
            {t("demo.remove")}
          </Button>
        }
      />
      <Confirm
        opened={asks}
        onClose={() => setAsks(false)}
        title={t("demo.removeTitle")}
        action={t("demo.remove")}
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      >
        <p className={layout["text"]}>{t("demo.removeText", { names: loaded.map((item) => item.name).join(", ") })}</p>
      </Confirm>
    </>
  );
}
