import { useLocation } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";

import { ALL_MAX, cutLists } from "../api/queries/pages";
import * as format from "../lib/format";
import { Notice } from "./basics";

/** Says which lists of this page are longer than what was loaded of them. */
export function Cuts() {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  const cuts = useSyncExternalStore(cutLists.subscribe, cutLists.get);
  return cuts
    .filter((cut) => cut.path === pathname)
    .map(({ name }) => (
      <Notice key={name} tone="warn" title={t("lists.cut", { n: format.count(ALL_MAX), what: t(`lists.${name}`) })}>
        {t("lists.cutHint")}
      </Notice>
    ));
}
