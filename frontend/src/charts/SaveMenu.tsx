import { ActionIcon, Menu } from "@mantine/core";
import { IconDotsVertical } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

export type FileKind = "png" | "svg" | "csv" | "json";

/** What a chart can be kept as: the picture, and the points that it shows; `children`: what else can be done with it. */
export function SaveMenu({
  title,
  data,
  onSave,
  children,
}: {
  title: string;
  data: readonly ("csv" | "json")[];
  onSave: (kind: FileKind) => void;
  children?: ReactNode;
}) {
  const { t } = useTranslation();
  const item = (kind: FileKind) => (
    <Menu.Item key={kind} onClick={() => onSave(kind)} data-testid={`export-${kind}`}>
      {kind.toUpperCase()}
    </Menu.Item>
  );
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon size="sm" variant="subtle" color="gray" aria-label={t("chart.menu", { title })}>
          <IconDotsVertical size={14} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {children}
        <Menu.Label>{t("chart.exportPicture")}</Menu.Label>
        {item("png")}
        {item("svg")}
        <Menu.Label>{t("chart.exportShown")}</Menu.Label>
        {data.map(item)}
      </Menu.Dropdown>
    </Menu>
  );
}
