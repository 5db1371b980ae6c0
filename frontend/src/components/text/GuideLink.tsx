import { IconHelpCircle } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import { followInner, useRouterHere } from "./innerLinks";
import css from "../ui.module.css";

/** Beside a heading: to what the documentation says about it, "guides/agents#shared-storage". */
export function GuideLink({ to, about }: { to: string; about?: string }) {
  const { t } = useTranslation();
  const router = useRouterHere();
  const label = about ? t("docs.guideAbout", { what: about }) : t("docs.guide");
  return (
    <a
      className={css["guide"]}
      href={url(`/docs/${to}`)}
      aria-label={label}
      title={t("docs.guide")}
      onClick={(event) => followInner(router, event, event.currentTarget)}
    >
      <IconHelpCircle size={16} stroke={1.75} aria-hidden />
    </a>
  );
}
