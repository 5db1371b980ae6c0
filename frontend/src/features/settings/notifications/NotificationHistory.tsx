import { Modal } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { deliveries, type Delivery, type Target } from "../../../api/queries";
import { Empty } from "../../../components/basics";
import { type Column, column, lead, numeric } from "../../../components/tables/DataTable";
import { PagedList } from "../../../components/tables/PagedTable";
import { Ago } from "../../../components/Time";
import ui from "../../../components/ui.module.css";
import css from "./notifications.module.css";

const TONES: Record<Delivery["state"], string> = { sending: "run", sent: "ok", failed: "bad" };

/** What was sent to a target, newest first; it follows what is being sent. */
export function NotificationHistory({ target, onClose }: { target: Target; onClose: () => void }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(deliveries(target.id));
  const title = t("notify.historyOf", { name: target.name });
  const columns: Column<Delivery>[] = [
    lead("message", t("notify.message"), (one) => (
      <span title={`${t("notify.messageId")}: ${one.message_id}`} className={css["error"]}>
        {one.title}
      </span>
    )),
    column("state", t("notify.state"), (one) => (
      <span className={css["status"]}>
        <span className={ui["badge"]} data-tone={TONES[one.state]}>
          {t(`notify.deliveryState.${one.state}`)}
        </span>
        {one.error ? <span className={`dim ${css["error"]}`}>{one.error}</span> : null}
      </span>
    )),
    numeric("attempts", t("notify.attempts"), (one) => one.num_tries),
    column("when", t("notify.when"), (one) => <Ago at={one.ended_at ?? one.created_at} />),
  ];
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      centered
      size="xl"
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <PagedList
        query={query}
        empty={<Empty title={t("notify.noHistory")} />}
        rowKey={({ id }) => id}
        label={title}
        columns={columns}
        testId="deliveries"
      />
    </Modal>
  );
}
