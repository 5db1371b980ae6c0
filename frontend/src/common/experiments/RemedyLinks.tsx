import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { me } from "../../api/queries";
import layout from "../../components/layout.module.css";
import { type Remedy, remediesOf } from "./remedies";

export function RemedyLinks({ remedies }: { remedies: readonly Remedy[] }) {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  return (
    <span className={layout["remedies"]}>
      {remedies
        .filter(({ isForAdmins }) => isAdmin || !isForAdmins)
        .map(({ name, to, search }) => (
          <Link key={name} to={to} search={search ?? {}} data-testid="attention-action">
            {t(`attention.action.${name}`)}
          </Link>
        ))}
    </span>
  );
}

/** What lets a trial start that cannot start on the current nodes. */
export function Remedies(props: Parameters<typeof remediesOf>[0]) {
  return <RemedyLinks remedies={remediesOf(props)} />;
}
