import { Select } from "@mantine/core";
import { useTranslation } from "react-i18next";

import type { Groups } from "./useGroups";

/** What trials are grouped by. */
export function GroupSelect({ grouping, onGroup }: { grouping: Groups; onGroup: (key: string | undefined) => void }) {
  const { t } = useTranslation();
  return (
    <Select
      aria-label={t("compare.group")}
      w={152} // the whole toolbar in one line at 1440 pixels
      comboboxProps={{ width: 260, position: "bottom-start" }}
      searchable
      value={grouping.key ?? ""}
      onChange={(value) => onGroup(value || undefined)}
      data={[
        ...(grouping.isNeeded ? [] : [{ value: "", label: t("compare.noGroup") }]),
        ...grouping.keys.map((name) => ({ value: name, label: t("compare.groupedBy", { name }) })),
      ]}
      data-testid="group-by"
    />
  );
}
