import { Button, Menu, Tooltip } from "@mantine/core";
import {
  IconArchive,
  IconArchiveOff,
  IconCopyPlus,
  IconDots,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconPlayerTrackNext,
  IconSkull,
  IconPlugConnectedX,
  IconTerminal2,
  IconTrash,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, me } from "../../api/queries";
import { ContinueDialog } from "./ContinueDialog";
import { DeleteDialog } from "./DeleteDialog";
import { OperationDialog } from "./OperationDialog";
import { offered, type Operation, refused } from "./operations";
import css from "./experiments.module.css";

const ICONS: Record<Operation, typeof IconDots> = {
  pause: IconPlayerPause,
  resume: IconPlayerPlay,
  stop: IconPlayerStop,
  kill: IconSkull,
  close: IconPlugConnectedX,
  continue: IconPlayerTrackNext,
  fork: IconCopyPlus,
  session: IconTerminal2,
  archive: IconArchive,
  unarchive: IconArchiveOff,
  delete: IconTrash,
};
/** These stand as buttons; the others are in the menu. */
const SHOWN: ReadonlySet<Operation> = new Set(["pause", "resume", "stop", "close", "continue"]);
const RED: ReadonlySet<Operation> = new Set(["stop", "kill", "delete"]);

/**
 * Everything that can be done with an experiment now; what changes it asks first. `more`: further items
 * of the menu, before those that lose something.
 */
export function ExperimentActions({ experiment: data, more }: { experiment: ExperimentDetail; more?: ReactNode }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Operation | null>(null);
  const operations = offered(data, user);
  const begin = (operation: Operation): void => {
    if (operation === "fork") void navigate({ to: "/submit", search: { from: data.id } });
    else if (operation === "session") void navigate({ to: "/sessions", search: { from: data.id } });
    else setAsked(operation);
  };
  const close = (): void => setAsked(null);
  const menu = operations.filter((operation) => !SHOWN.has(operation));
  const losing = menu.filter((operation) => RED.has(operation));
  const item = (operation: Operation): ReactNode => {
    const Icon = ICONS[operation];
    const isLosing = operation === "kill" || operation === "delete";
    return (
      <Menu.Item
        key={operation}
        color={isLosing ? "red" : undefined}
        leftSection={<Icon size={14} aria-hidden />}
        onClick={() => begin(operation)}
        data-testid={operation}
      >
        {t(`operation.${operation}`)}
        {isLosing ? <span className={css["loses"]}>{t(`operation.loses.${operation}`)}</span> : null}
      </Menu.Item>
    );
  };
  return (
    <>
      {refused(data, user).map((operation) => (
        <Tooltip key={operation} label={t("unmanaged.refused")}>
          <Button
            variant="default"
            data-disabled
            aria-disabled
            onClick={(e) => e.preventDefault()}
            data-testid={operation}
          >
            {t(`operation.${operation}`)}
          </Button>
        </Tooltip>
      ))}
      {operations
        .filter((operation) => SHOWN.has(operation))
        .map((operation) => {
          const Icon = ICONS[operation];
          return (
            <Button
              key={operation}
              variant={RED.has(operation) ? "light" : "default"}
              color={RED.has(operation) ? "red" : undefined}
              leftSection={<Icon size={14} aria-hidden />}
              onClick={() => begin(operation)}
              data-testid={operation}
            >
              {t(`operation.${operation}`)}
            </Button>
          );
        })}
      {menu.length > 0 || more ? (
        <Menu position="bottom-end">
          <Menu.Target>
            <Button variant="default" px={8} aria-label={t("common.actions")} data-testid="more-actions">
              <IconDots size={16} aria-hidden />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {menu.filter((operation) => !RED.has(operation)).map(item)}
            {more}
            {losing.length > 0 ? <Menu.Divider /> : null}
            {losing.map(item)}
          </Menu.Dropdown>
        </Menu>
      ) : null}
      {asked === "delete" ? <DeleteDialog experiment={data} onClose={close} /> : null}
      {asked === "continue" ? <ContinueDialog experiment={data} onClose={close} /> : null}
      {asked === "pause" ||
      asked === "resume" ||
      asked === "stop" ||
      asked === "kill" ||
      asked === "close" ||
      asked === "archive" ||
      asked === "unarchive" ? (
        <OperationDialog key={asked} experiment={data} kind={asked} onClose={close} />
      ) : null}
    </>
  );
}
