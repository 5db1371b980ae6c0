import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { health } from "../api/queries";
import { Notice } from "./basics";

/** Pages that say more of the server's health ask more often. */
const LOOK_MS = 30_000;

/** Says on every page that the server cannot save anything. */
export function DiskFull() {
  const { t } = useTranslation();
  const { data } = useQuery({ ...health, refetchInterval: LOOK_MS, refetchOnMount: false });
  if (data?.database !== "disk_full") return null;
  return (
    <div data-testid="disk-full">
      <Notice tone="bad" title={t("error.diskFull")}>
        {t("error.diskFullHint")}
      </Notice>
    </div>
  );
}
