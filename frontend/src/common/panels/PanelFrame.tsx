import { ActionIcon, Menu } from "@mantine/core";
import { IconDotsVertical } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import css from "../../charts/chart.module.css";

/** A box for what is no drawing: text, tables and images. */
export function PanelFrame({
  title,
  testId,
  menu,
  children,
}: {
  title: string;
  testId: string;
  menu: ReactNode;
  children: ReactNode;
}) {
  const { t } = useTranslation();
  return (
    <figure className={css["figure"]} aria-label={title} data-testid={testId}>
      <div className={css["head"]}>
        <h3 title={title}>{title}</h3>
        <span className={css["tools"]}>
          <Menu position="bottom-end" withinPortal>
            <Menu.Target>
              <ActionIcon size="sm" variant="subtle" color="gray" aria-label={t("panels.menu", { title })}>
                <IconDotsVertical size={14} />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>{menu}</Menu.Dropdown>
          </Menu>
        </span>
      </div>
      <div data-report>{children}</div>
    </figure>
  );
}
