import { Badge, Button, Group } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import {
  type Checkpoint,
  type CheckpointState,
  me,
  trialCheckpoints,
  trialExports,
  type TrialDetail,
} from "../../../api/queries";
import { Empty } from "../../../components/basics";
import { actions, type Column, column, lead, numeric } from "../../../components/tables/DataTable";
import { LinkButton } from "../../../components/LinkButton";
import { PagedTable } from "../../../components/tables/PagedTable";
import { QueryView } from "../../../components/QueryView";
import { Ago } from "../../../components/Time";
import * as format from "../../../lib/format";
import { CleaningDialog } from "../../../common/checkpoints/CleaningDialog";
import { FromScript } from "../../../common/checkpoints/FromScript";
import { ExportButton } from "./ExportButton";
import { Pinned, PinButton } from "../../../common/checkpoints/PinButton";
import { RegisterButton } from "../../../common/models/RegisterButton";
import css from "../trials.module.css";

export function Checkpoints({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const query = useInfiniteQuery(trialCheckpoints(trial.id));
  const mayChange = user !== undefined && user.role !== "viewer";
  const columns = useColumns(trial, mayChange);
  const [cleaning, setCleaning] = useState(false);
  return (
    <QueryView query={query}>
      {(data) => {
        const items = data.pages.flatMap((page) => page.items);
        if (items.length === 0) return <None trial={trial} />;
        return (
          <>
            <Group justify="flex-end" mb="xs">
              <Button variant="default" size="xs" onClick={() => setCleaning(true)} data-testid="cleaning-open">
                {t("cleaning.open")}
              </Button>
            </Group>
            {cleaning ? (
              <CleaningDialog
                experimentId={trial.experiment_id}
                mayClean={mayChange}
                onClose={() => setCleaning(false)}
              />
            ) : null}
            <PagedTable
              query={query}
              rows={items}
              rowKey={(c) => c.id}
              label={t("trial.tab.checkpoints")}
              testId="checkpoints"
              columns={columns}
            />
          </>
        );
      }}
    </QueryView>
  );
}

function None({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const { adopt } = (trial.config["checkpoints"] ?? {}) as { adopt?: string | null };
  if (!adopt) return <Empty title={t("checkpoints.none")}>{t("checkpoints.noneHint")}</Empty>;
  return <Empty title={t("checkpoints.noneAdopted", { pattern: adopt })}>{t("checkpoints.noneAdoptedHint")}</Empty>;
}

function useColumns(trial: TrialDetail, mayChange: boolean): Column<Checkpoint>[] {
  const { t } = useTranslation();
  const exports = useQuery(trialExports(trial.id)).data?.items ?? [];
  return [
    lead("step", t("checkpoints.step"), (c) => (
      <span className={css["whole"]}>
        <b className="num">{format.count(c.step)}</b>{" "}
        {c.is_best ? (
          <Badge size="xs" variant="light">
            {t("checkpoints.best")}
          </Badge>
        ) : null}{" "}
        {c.is_latest ? (
          <Badge size="xs" variant="light">
            {t("checkpoints.latest")}
          </Badge>
        ) : null}{" "}
        <FromScript checkpoint={c} /> <Pinned checkpoint={c} />
      </span>
    )),
    numeric("epoch", t("checkpoints.epoch"), (c) => format.num(c.epoch, 3), { phone: false }),
    column("metrics", t("checkpoints.metrics"), (c) => (
      <span className={`mono ${css["pairs"]}`}>
        {Object.keys(c.metrics).length === 0 ? format.MISSING : null}
        {Object.entries(c.metrics).map(([name, value]) => (
          <span key={name}>{`${name} ${format.num(value)}`}</span>
        ))}
      </span>
    )),
    numeric("size", t("checkpoints.size"), (c) => format.bytes(c.size_bytes)),
    numeric("files", t("checkpoints.files"), (c) => format.count(c.num_files), { phone: false }),
    column("node", t("ranks.node"), (c) => <span className={css["whole"]}>{c.node_name}</span>),
    column("state", t("checkpoints.state"), (c) =>
      c.state === "local"
        ? t("checkpointList.localOn", { node: c.node_name })
        : t(`checkpointList.${c.state as CheckpointState}`),
    ),
    // Of a trial that was never restarted, all are of the first attempt.
    ...(trial.attempts.length > 1
      ? [numeric("attempt", t("ranks.attempt"), (c: Checkpoint) => c.attempt_no, { phone: false })]
      : []),
    numeric("at", t("checkpoints.saved"), (c) => <Ago at={c.created_at} />),
    column("path", t("checkpoints.path"), (c) => <span className={`mono ${css["path"]}`}>{c.path}</span>),
    actions("fork", t("common.rowActions"), (c) =>
      c.state === "complete" ? (
        <Group gap={4} justify="flex-end" wrap="nowrap" ml="auto">
          {mayChange ? <PinButton checkpoint={c} /> : null}
          <ExportButton
            trialId={trial.id}
            checkpointId={c.id}
            last={exports.find((e) => e.checkpoint_id === c.id)}
            mayAsk={mayChange}
            isModel={c.kind !== "adopted"}
          />
          {mayChange ? <RegisterButton source={{ checkpointId: c.id, step: c.step }} /> : null}
          {mayChange ? (
            <LinkButton
              variant="subtle"
              size="compact-xs"
              to="/submit"
              search={{ from: trial.experiment_id, start: String(c.id) }}
              data-testid="fork-here"
            >
              {t("fork.here")}
            </LinkButton>
          ) : null}
        </Group>
      ) : null,
    ),
  ];
}
