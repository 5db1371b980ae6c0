import { ActionIcon, Popover, Tooltip } from "@mantine/core";
import { IconBell } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../api/liveHooks";
import { inboxCount, me } from "../api/queries";
import { withTexts } from "../i18n";
import css from "./shell.module.css";

const InboxPanel = lazy(() => withTexts(import("./InboxPanel")));
const SHOWN_MAX = 99;

/** The bell in the header: how many notifications are unread, and the inbox itself. */
export function InboxBell() {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const count = useQuery({ ...inboxCount, enabled: user !== undefined }).data?.num_unread ?? 0;
  const [opened, setOpened] = useState(false);
  useLiveQueries(user ? `inbox:${user.id}` : null, ["inbox"]);
  const label = count > 0 ? t("nav.inboxUnread", { count }) : t("nav.inbox");
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" trapFocus>
      <Popover.Target>
        <Tooltip label={label} disabled={opened}>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={label}
            onClick={() => setOpened(!opened)}
            className={css["bell"]}
            data-testid="inbox-bell"
          >
            <IconBell size={17} />
            {count > 0 ? (
              <span className={css["unread"]} aria-hidden data-testid="inbox-unread">
                {count > SHOWN_MAX ? `${SHOWN_MAX}+` : count}
              </span>
            ) : null}
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown p={0} className={css["inbox"]} aria-label={t("nav.inbox")}>
        <Suspense>
          <InboxPanel unread={count} onLeave={() => setOpened(false)} />
        </Suspense>
      </Popover.Dropdown>
    </Popover>
  );
}
