import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { PageHead } from "../../components/basics";
import { CheckpointList } from "./CheckpointList";

/** Checkpoints of all trials of all experiments. */
export function CheckpointsPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/checkpoints" });
  const navigate = useNavigate({ from: "/checkpoints" });
  return (
    <>
      <PageHead guide="concepts/checkpoints" title={t("nav.checkpoints")} sub={t("checkpointList.pageHint")} />
      <CheckpointList
        experimentId={null}
        project={search.project}
        saved={search.saved}
        order={search.order}
        set={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
    </>
  );
}

/** Those of the trials of one experiment. */
export function CheckpointsTab({ experimentId }: { experimentId: number }) {
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  return (
    <CheckpointList
      experimentId={experimentId}
      saved={search.saved}
      order={search.order}
      set={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
    />
  );
}
