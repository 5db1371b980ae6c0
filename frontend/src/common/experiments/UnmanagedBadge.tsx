import { IconPlugConnected } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import css from "../../components/ui.module.css";

/**
 * Says that a client outside the cluster runs and reports it; nothing for what Muster runs.
 *
 * isIcon: without the word, where there is no room for it.
 */
export function UnmanagedBadge({ client, isIcon = false }: { client: string | null; isIcon?: boolean }) {
  const { t } = useTranslation();
  if (client === null) return null;
  return (
    <span className={css["badge"]} data-tone="idle" data-testid="unmanaged" title={t("unmanaged.hint", { client })}>
      <IconPlugConnected size={12} aria-hidden />
      <span className={isIcon ? "srOnly" : undefined}>{t("unmanaged.badge")}</span>
    </span>
  );
}
