import { useRef } from "react";

import { useInnerLinks } from "./innerLinks";
import { url } from "../../lib/address";
import css from "./prose.module.css";

/** HTML from lib/markdown or from the documentation, which is safe to show; never another. */
export function Prose({ html, lang, testId }: { html: string; lang?: string; testId?: string }) {
  const area = useRef<HTMLDivElement>(null);
  useInnerLinks(area);
  return (
    <div
      ref={area}
      className={css["prose"]}
      lang={lang}
      data-testid={testId}
      dangerouslySetInnerHTML={{ __html: html.replaceAll('<a href="/', `<a href="${url("/")}`) }}
    />
  );
}
