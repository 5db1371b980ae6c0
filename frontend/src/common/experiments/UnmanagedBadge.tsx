import { IconPlugConnected } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import css from "../../components/ui.module.css";

/** Says that a client outside the cluster runs and reports it; nothing for what Muster runs. */
export function UnmanagedBadge({ client }: { client: string | null }) {
  const { t } = useTranslation();
  if (client === null) return null;
  return (
    <span className={css["badge"]} data-tone="idle" data-testid="unmanaged" title={t("unmanaged.hint", { client })}>
      <IconPlugConnected size={12} aria-hidden />
      {t("unmanaged.badge")}
    </span>
  );
}
