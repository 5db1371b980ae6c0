import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../api/queries";
import { LinkButton } from "./LinkButton";

/** The way to the submit page; nothing for who may only look. */
export function SubmitLink({ icon, example = false }: { icon?: ReactNode; example?: boolean }) {
  const { t } = useTranslation();
  if (useQuery(me).data?.role === "viewer") return null;
  return (
    <LinkButton to="/submit" search={example ? { template: "ddp" } : {}} leftSection={icon}>
      {t(example ? "first.example" : "nav.submit")}
    </LinkButton>
  );
}
