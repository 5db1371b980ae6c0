import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../api/queries";
import { LinkButton } from "./LinkButton";

/** The way to the submit page; nothing for who may only look. example: the words for one that opens the example. */
export function SubmitLink({ icon, example, variant }: { icon?: ReactNode; example?: ReactNode; variant?: "default" }) {
  const { t } = useTranslation();
  if (useQuery(me).data?.role === "viewer") return null;
  return (
    <LinkButton
      to="/submit"
      search={example === undefined ? {} : { template: "digits-ddp" }}
      leftSection={icon}
      variant={variant}
    >
      {example ?? t("nav.submit")}
    </LinkButton>
  );
}
