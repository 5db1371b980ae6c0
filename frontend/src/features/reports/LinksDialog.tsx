import { Button, Modal, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { reportLinks } from "../../api/queries";
import { Code } from "../../components/basics";
import layout from "../../components/layout.module.css";
import { ErrorNotice } from "../../components/QueryView";
import { Ago, Until } from "../../components/Time";

const DAYS = [1, 7, 30, 90] as const;

/** Links that show a report to people without an account. */
export function LinksDialog({ id, onClose }: { id: number; onClose: () => void }) {
  const { t } = useTranslation();
  const query = useQuery(reportLinks(id));
  const queryClient = useQueryClient();
  const [days, setDays] = useState("7");
  const params = { path: { report_id: id } };
  const renew = () => queryClient.invalidateQueries({ queryKey: reportLinks(id).queryKey });
  const create = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/reports/{report_id}/links", { params, body: { days: Number(days) } })),
    onSuccess: renew,
  });
  const remove = useMutation({
    mutationFn: (linkId: number) =>
      unwrap(
        client.DELETE("/api/v1/reports/{report_id}/links/{link_id}", {
          params: { path: { report_id: id, link_id: linkId } },
        }),
      ),
    onSettled: renew,
  });
  const error = query.error ?? create.error ?? remove.error;
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("reports.shareTitle")}
      size="lg"
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <div className={layout["stack"]} data-testid="report-links">
        <p className={layout["text"]}>{t("reports.shareHint")}</p>
        <div className={layout["fields"]}>
          <Select
            label={t("reports.days")}
            allowDeselect={false}
            data={DAYS.map((value) => ({ value: String(value), label: t("reports.dayCount", { count: value }) }))}
            value={days}
            onChange={(value) => setDays(value ?? "7")}
          />
          <Button loading={create.isPending} onClick={() => create.mutate()}>
            {t("reports.createLink")}
          </Button>
        </div>
        {create.data ? (
          <>
            <p className={layout["text"]}>{t("reports.linkOnce")}</p>
            <Code text={create.data.url} wrap testId="report-url" />
          </>
        ) : null}
        <ul className={layout["bullets"]}>
          {query.data?.map((one) => (
            <li key={one.id}>
              {t("reports.linkUntil")} <Until at={one.expires_at} /> · {one.created_by} ·{" "}
              {one.last_used_at === null ? (
                t("reports.neverUsed")
              ) : (
                <>
                  {t("reports.lastUsed")} <Ago at={one.last_used_at} />
                </>
              )}{" "}
              <Button variant="subtle" color="red" size="compact-xs" onClick={() => remove.mutate(one.id)}>
                {t("reports.delete")}
              </Button>
            </li>
          ))}
        </ul>
        {error ? <ErrorNotice error={error} /> : null}
      </div>
    </Modal>
  );
}
