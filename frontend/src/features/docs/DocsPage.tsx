import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useParams, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";
import { useTranslation } from "react-i18next";

import { DOCS, docPage, FOLDERS, languageOf, titleOf } from "../../common/docs/docs";
import type { DocHeading, DocInfo, DocPage } from "../../common/docs/types";
import { Notice, PageHead } from "../../components/basics";
import { Prose } from "../../components/text/Prose";
import { QueryView } from "../../components/QueryView";
import { DocsNav } from "./DocsNav";
import { DocsResults } from "./DocsResults";
import css from "./docs.module.css";

const DEEPEST_LISTED = 3;

/** A page of the documentation, the list of all of them, or the sections that a search has found. */
export function DocsPage() {
  const { t, i18n } = useTranslation();
  const { _splat: slug = "" } = useParams({ from: "/app/docs/$" });
  const { q, lang } = useSearch({ from: "/app/docs/$" });
  const info = DOCS.find((page) => page.slug === slug);
  const language = lang ?? i18n.language;
  return (
    <div className={css["docs"]}>
      <DocsNav slug={slug} language={i18n.language} />
      {q ? (
        <DocsResults query={q} language={i18n.language} />
      ) : info ? (
        <Article key={slug} info={info} language={languageOf(info, language)} isWanted={lang !== undefined} />
      ) : slug === "contents" || slug === "" ? (
        <Contents language={i18n.language} />
      ) : (
        <PageHead
          title={t("error.notFound")}
          sub={
            <Link to="/docs/$" params={{ _splat: "contents" }}>
              {t("docs.contents")}
            </Link>
          }
        />
      )}
    </div>
  );
}

/** A page in `language`; isWanted: the address asks for that language. */
function Article({ info, language, isWanted }: { info: DocInfo; language: string; isWanted: boolean }) {
  const { t, i18n } = useTranslation();
  const query = useQuery(docPage(info.slug, language));
  const other = Object.keys(info.titles).find((one) => one !== language);
  return (
    <div className={css["reading"]}>
      <QueryView query={query}>
        {(page) => (
          <div className={css["columns"]}>
            <article className={css["article"]} data-testid="doc">
              {language !== i18n.language && !isWanted ? (
                <Notice title={t("docs.onlyEnglish")} />
              ) : other ? (
                <p className={css["other"]}>
                  <Link to="." search={{ lang: other === i18n.language ? undefined : other }} lang={other}>
                    {t("docs.otherLanguage", { lng: other === "en" ? "zh-CN" : "en" })}
                  </Link>
                </p>
              ) : null}
              <Prose html={page.html} lang={language} />
              <Neighbours slug={info.slug} language={i18n.language} />
            </article>
            <OnThisPage page={page} language={language} />
          </div>
        )}
      </QueryView>
    </div>
  );
}

/** The sections of a page. Goes to the one in the address once the page is there. */
function OnThisPage({ page, language }: { page: DocPage; language: string }) {
  const { t } = useTranslation();
  const { hash } = useLocation();
  useEffect(() => {
    if (hash) document.getElementById(hash)?.scrollIntoView();
  }, [page, hash]);
  const listed = page.headings.filter((heading) => heading.level <= DEEPEST_LISTED);
  if (listed.length < 2) return null;
  const item = (heading: DocHeading) => (
    <li key={heading.id} data-level={heading.level}>
      <Link to="." search hash={heading.id} activeOptions={{ includeHash: true }} lang={language}>
        {heading.title}
      </Link>
    </li>
  );
  return (
    <nav className={css["toc"]} aria-label={t("docs.onThisPage")}>
      <h2>{t("docs.onThisPage")}</h2>
      <ul>{listed.map(item)}</ul>
    </nav>
  );
}

/** The pages before and after, in the order of the list. */
function Neighbours({ slug, language }: { slug: string; language: string }) {
  const { t } = useTranslation();
  const at = DOCS.findIndex((page) => page.slug === slug);
  const link = (page: DocInfo | undefined, word: string, rel: string) =>
    page ? (
      <Link to="/docs/$" params={{ _splat: page.slug }} rel={rel}>
        <span className="dim">{word}</span>
        <span lang={languageOf(page, language)}>{titleOf(page, language)}</span>
      </Link>
    ) : (
      <span />
    );
  return (
    <nav className={css["neighbours"]} aria-label={`${t("docs.previous")}, ${t("docs.next")}`}>
      {link(DOCS[at - 1], t("docs.previous"), "prev")}
      {link(DOCS[at + 1], t("docs.next"), "next")}
    </nav>
  );
}

/** Every page with what one reads it for. */
function Contents({ language }: { language: string }) {
  const { t } = useTranslation();
  const groups = [
    { title: t("docs.start"), pages: DOCS.filter((page) => page.isStart) },
    ...FOLDERS.map((folder) => ({
      title: t(`docs.${folder}`),
      pages: DOCS.filter((page) => !page.isStart && page.slug.startsWith(`${folder}/`)),
    })),
  ];
  return (
    <div className={css["reading"]} data-testid="docs-contents">
      <PageHead title={t("docs.contents")} sub={t("docs.contentsLead")} />
      {groups.map(({ title, pages }) => (
        <section key={title} className={css["group"]}>
          <h2>{title}</h2>
          <ul>
            {pages.map((page) => (
              <li key={page.slug}>
                <Link to="/docs/$" params={{ _splat: page.slug }} lang={languageOf(page, language)}>
                  {titleOf(page, language)}
                </Link>
                <span lang="en">{page.purpose}</span>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
