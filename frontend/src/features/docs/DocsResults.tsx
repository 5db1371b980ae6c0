import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { DOCS, docSections, languageOf, titleOf } from "../../common/docs/docs";
import { type DocHit, searchDocs } from "../../common/docs/searchDocs";
import { Empty, PageHead } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import css from "./docs.module.css";

const SHOWN = 30;

/** The sections that have every word of the query. */
export function DocsResults({ query, language }: { query: string; language: string }) {
  const { t } = useTranslation();
  const sections = useQuery(docSections(language));
  return (
    <div className={css["reading"]} data-testid="docs-results">
      <QueryView query={sections}>
        {(all) => {
          const hits = searchDocs(all, query, SHOWN);
          return (
            <>
              <PageHead
                title={t("docs.search")}
                sub={
                  <span role="status">
                    {hits.length < SHOWN ? t("docs.found", { count: hits.length }) : t("docs.foundMax", { n: SHOWN })}
                  </span>
                }
              />
              {hits.length === 0 ? <Empty title={t("docs.none")}>{t("docs.noneHint")}</Empty> : null}
              <ul className={css["hits"]}>
                {hits.map((hit) => (
                  <Hit key={`${hit.section.page}#${hit.section.id}`} hit={hit} query={query} language={language} />
                ))}
              </ul>
            </>
          );
        }}
      </QueryView>
    </div>
  );
}

function Hit({ hit: { section, excerpt }, query, language }: { hit: DocHit; query: string; language: string }) {
  const info = DOCS.find((page) => page.slug === section.page);
  if (!info) return null;
  const title = titleOf(info, language);
  const shown = languageOf(info, language);
  return (
    <li>
      <Link to="/docs/$" params={{ _splat: section.page }} hash={section.id || undefined} lang={shown}>
        {section.id ? `${title} › ${section.title}` : title}
      </Link>
      <p lang={shown}>
        <Marked text={excerpt} query={query} />
      </p>
    </li>
  );
}

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** Text in which the words of the query are marked. */
function Marked({ text, query }: { text: string; query: string }) {
  const words = query
    .trim()
    .split(/\s+/)
    .map((word) => word.replace(SPECIAL, String.raw`\$&`));
  return text
    .split(new RegExp(`(${words.join("|")})`, "gi"))
    .map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece));
}
