import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";

import css from "./filters.module.css";

/** As narrow as tables become cards; see ui.module.css. */
const PHONE = "(max-width: 720px)";

/** Controls that are folded up on a phone, where what they control matters more. */
export function PhoneFold({ title, children }: { title: string; children: ReactNode }) {
  const isPhone = useMediaQuery(PHONE, false, { getInitialValueInEffect: false });
  if (!isPhone) return children;
  return (
    <details className={css["phoneFold"]}>
      <summary>{title}</summary>
      {children}
    </details>
  );
}
