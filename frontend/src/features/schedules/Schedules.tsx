import { Button, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { me, type Schedule, schedules } from "../../api/queries";
import { Clamped, Empty, PageHead } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import layout from "../../components/layout.module.css";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { SubmitLink } from "../../components/SubmitLink";
import { actions, type Column, column, DataTable, lead } from "../../components/tables/DataTable";
import { Reason } from "../../components/text/Message";
import { Ago, Stamp } from "../../components/Time";
import { TimesForm } from "../../common/schedules/TimesForm";

const ChineseTimes = lazy(() => import("./ChineseTimes"));

/** All schedules that the reader may see, the next to start first. */
export function Schedules() {
  const { t, i18n } = useTranslation();
  const query = useQuery(schedules);
  useLiveQueries("schedules", schedules.queryKey);
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const [asked, setAsked] = useState<{ what: "times" | "delete"; schedule: Schedule } | null>(null);
  const close = (): void => setAsked(null);
  const change = useMutation({
    mutationFn: ({ id, ...wish }: { id: number; is_paused?: boolean; runs?: true }) => {
      const params = { path: { schedule_id: id } };
      return wish.runs
        ? unwrap(client.POST("/api/v1/schedules/{schedule_id}:run", { params }))
        : unwrap(client.PATCH("/api/v1/schedules/{schedule_id}", { params, body: wish }));
    },
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const isMine = ({ owner }: Schedule): boolean =>
    user?.role === "admin" || (user?.role === "member" && owner === user.username);
  const columns: Column<Schedule>[] = [
    lead("name", t("schedules.name"), (one) => <Clamped text={one.name} />),
    column("times", t("schedules.times"), (one) => (
      <span>
        {i18n.language === "zh-CN" ? (
          <Suspense>
            <ChineseTimes cron={one.cron} />
          </Suspense>
        ) : (
          `${one.cron_in_words} `
        )}
        <span className={`dim ${layout["nowrap"]}`}>
          <code>{one.cron}</code> {one.timezone}
        </span>
      </span>
    )),
    column("next", t("schedules.next"), (one) =>
      one.is_paused ? t("schedules.paused") : <Stamp at={one.upcoming[0] ?? null} />,
    ),
    column("overlap", t("schedules.overlap"), (one) => t(`schedules.overlapShort.${one.overlap}`)),
    column("last", t("schedules.last"), (one) =>
      one.last_at === null ? (
        t("schedules.never")
      ) : (
        <span>
          <Ago at={one.last_at} />
          {one.last_experiment_id === null ? null : (
            <>
              {" · "}
              <Link to="/experiments/$experimentId" params={{ experimentId: String(one.last_experiment_id) }}>
                {t("experiment.ref", { id: one.last_experiment_id })}
              </Link>
            </>
          )}
        </span>
      ),
    ),
    column("reason", t("schedules.outcome"), (one) =>
      one.last_reason === "" ? null : <Reason text={one.last_reason} parts={one.last_reason_parts} />,
    ),
    column("project", t("schedules.project"), ({ project }) => project),
    column("owner", t("schedules.owner"), ({ owner }) => owner ?? t("schedules.nobody")),
    actions("more", t("common.rowActions"), (one) =>
      isMine(one) ? (
        <Menu position="bottom-end">
          <Menu.Target>
            <Button variant="subtle" size="compact-xs" aria-label={t("common.actions")} data-testid="schedule-menu">
              <IconDots size={14} aria-hidden />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => change.mutate({ id: one.id, runs: true })}>{t("schedules.run")}</Menu.Item>
            <Menu.Item onClick={() => change.mutate({ id: one.id, is_paused: !one.is_paused })}>
              {t(one.is_paused ? "schedules.resume" : "schedules.pause")}
            </Menu.Item>
            <Menu.Item onClick={() => setAsked({ what: "times", schedule: one })}>{t("schedules.change")}</Menu.Item>
            <Menu.Item color="red" onClick={() => setAsked({ what: "delete", schedule: one })}>
              {t("schedules.delete")}
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      ) : null,
    ),
  ];
  return (
    <>
      <PageHead guide="guides/schedules" title={t("nav.schedules")} actions={<SubmitLink />} />
      {change.error ? <ErrorNotice error={change.error} /> : null}
      <QueryView query={query}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title={t("schedules.none")}>{t("schedules.noneHint")}</Empty>
          ) : (
            <DataTable
              rows={rows}
              columns={columns}
              rowKey={({ id }) => id}
              label={t("nav.schedules")}
              testId="schedules"
            />
          )
        }
      </QueryView>
      {asked?.what === "times" ? (
        <TimesForm
          title={t("schedules.changeTitle", { name: asked.schedule.name })}
          start={asked.schedule}
          onClose={close}
          save={(times) =>
            unwrap(
              client.PATCH("/api/v1/schedules/{schedule_id}", {
                params: { path: { schedule_id: asked.schedule.id } },
                body: times,
              }),
            )
          }
        />
      ) : null}
      {asked?.what === "delete" ? (
        <ConfirmAction
          title={t("schedules.deleteTitle", { name: asked.schedule.name })}
          action={t("schedules.delete")}
          onClose={close}
          run={() =>
            unwrap(
              client.DELETE("/api/v1/schedules/{schedule_id}", {
                params: { path: { schedule_id: asked.schedule.id } },
              }),
            )
          }
        >
          {t("schedules.deleteText")}
        </ConfirmAction>
      ) : null}
    </>
  );
}
