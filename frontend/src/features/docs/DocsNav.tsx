import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { DOCS, FOLDERS, languageOf, titleOf } from "../../common/docs/docs";
import { useTyped } from "../../components/useTyped";
import css from "./docs.module.css";

const TYPING_MS = 150;

/** The search field, and every page below it. */
export function DocsNav({ slug, language }: { slug: string; language: string }) {
  const { t } = useTranslation();
  const { q } = useSearch({ from: "/app/docs/$" });
  const navigate = useNavigate();
  const [typed, setTyped] = useTyped(q, TYPING_MS, (text) => {
    void navigate({ to: ".", search: (previous) => ({ ...previous, q: text }), replace: q !== undefined });
  });
  return (
    <nav className={css["nav"]} aria-label={t("docs.pages")}>
      <TextInput
        type="search"
        leftSection={<IconSearch size={14} aria-hidden />}
        aria-label={t("docs.search")}
        placeholder={t("docs.search")}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        data-filter
        data-testid="docs-search"
      />
      <Link className={css["allPages"]} to="/docs/$" params={{ _splat: "contents" }}>
        {t("docs.allPages")}
      </Link>
      <div className={css["list"]}>
        {FOLDERS.map((folder) => (
          <section key={folder}>
            <h2>{t(`docs.${folder}`)}</h2>
            <ul>
              {DOCS.filter((page) => page.slug.startsWith(`${folder}/`)).map((page) => (
                <li key={page.slug}>
                  <Link
                    to="/docs/$"
                    params={{ _splat: page.slug }}
                    data-active={page.slug === slug || undefined}
                    aria-current={page.slug === slug ? "page" : undefined}
                    lang={languageOf(page, language)}
                  >
                    {titleOf(page, language)}
                  </Link>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </nav>
  );
}
