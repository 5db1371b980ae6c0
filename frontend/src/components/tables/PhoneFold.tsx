import type { ReactNode } from "react";

import css from "./filters.module.css";
import { usePhone } from "./usePhone";

/** Controls that are folded up on a phone, where what they control matters more. */
export function PhoneFold({ title, children }: { title: string; children: ReactNode }) {
  const isPhone = usePhone();
  if (!isPhone) return children;
  return (
    <details className={css["phoneFold"]}>
      <summary>{title}</summary>
      {children}
    </details>
  );
}
