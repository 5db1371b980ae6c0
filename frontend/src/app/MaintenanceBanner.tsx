import { ActionIcon } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { useLiveQueries } from "../api/liveHooks";
import { dismissals, maintenance } from "../api/queries";
import { dismissalKey, titleOf, toAnnounce, whoOf } from "../common/nodes/maintenance";
import { Notice } from "../components/basics";
import { useTimeZone } from "../components/Time";
import { useNow } from "../components/useNow";

/** Says on every page which maintenance is active or starts within a day. */
export default function MaintenanceBanner() {
  const { data } = useQuery(maintenance);
  useLiveQueries("maintenance", maintenance.queryKey);
  return data && data.length > 0 ? <Announcements /> : null;
}

function Announcements() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const zone = useTimeZone();
  const windows = useQuery(maintenance).data ?? [];
  const dismissed = useQuery(dismissals).data;
  const dismiss = useMutation({
    mutationFn: (key: string) => unwrap(client.PUT("/api/v1/dismissals/{key}", { params: { path: { key } } })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: dismissals.queryKey }),
  });
  return toAnnounce(windows, new Set(dismissed), useNow()).map((window) => (
    <div key={window.id} data-testid="maintenance-banner">
      <Notice
        tone={window.is_active ? "warn" : "run"}
        title={titleOf(t, window, zone)}
        action={
          window.is_active ? null : (
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              aria-label={t("maintenance.dismiss")}
              data-dismiss
              onClick={() => dismiss.mutate(dismissalKey(window))}
            >
              <IconX size={14} />
            </ActionIcon>
          )
        }
      >
        {window.reason} · {t("maintenance.by", { who: whoOf(window) })} ·{" "}
        {t(`maintenance.${window.is_active ? "now" : "later"}.${window.running}`)}
      </Notice>
    </div>
  ));
}
