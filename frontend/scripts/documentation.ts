/**
 * The Markdown of docs/ as modules of the dashboard: a page each, fetched when it is read, a list of
 * them, and an index to search. What a page asks for and docs/ does not have ends the build.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import type { Token, Tokens } from "marked";
import type { Plugin } from "vite";

import type { DocHeading, DocInfo, DocSection } from "../src/common/docs/types.ts";
import { escapeHtml, linkHtml, reader, withScrolls } from "../src/lib/text/markdown.ts";

const ROOT = path.resolve(import.meta.dirname, "../../docs");
const FOLDERS = ["guides", "concepts", "reference"];
const CHINESE = ".zh-CN.md";
/** HTML that the pages may use, without attributes. */
const ALLOWED = /^<\/?(?:kbd|details|summary|br) ?\/?>$/;
const LIST = "virtual:docs";
const SEARCH = "virtual:docs-search/";

interface Rendered {
  title: string;
  html: string;
  headings: DocHeading[];
  sections: Omit<DocSection, "page">[];
  /** Files of pictures, in the order of the marks in the HTML. */
  pictures: string[];
}

const SPACE = /\s+/g;
const PICTURE = (no: number): string => `picture:${no}:`;

/** The words of tokens, without marks. */
function wordsOf(tokens: readonly Token[]): string {
  const words = tokens.map((token) => {
    if (token.type === "html") return "";
    if (token.type === "table") {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].map((row) => row.map((cell) => wordsOf(cell.tokens)).join(" ")).join(" ");
    }
    if (token.type === "list") return (token as Tokens.List).items.map((item) => wordsOf(item.tokens)).join(" ");
    if ("tokens" in token && token.tokens) return wordsOf(token.tokens);
    return "text" in token ? String(token.text) : " ";
  });
  const isInline = tokens.every((token) =>
    /^(text|strong|em|codespan|link|image|escape|del|br|html)$/.test(token.type),
  );
  return words
    .join(isInline ? "" : " ")
    .replace(SPACE, " ")
    .trim();
}

/** Anchors as code hosts make them, so that links work there and here. */
function anchors(): (title: string) => string {
  const used = new Set<string>();
  return (title) => {
    const slug = title
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-");
    let unique = slug;
    for (let no = 1; used.has(unique); no += 1) unique = `${slug}-${no}`;
    used.add(unique);
    return unique;
  };
}

const slugOf = (file: string): string =>
  path.relative(ROOT, file).replaceAll(path.sep, "/").replace(CHINESE, "").replace(/\.md$/, "");
const isPage = (file: string): boolean =>
  file.endsWith(".md") && FOLDERS.includes(path.relative(ROOT, file).split(path.sep)[0] ?? "");

/** Where a link of a page leads in the dashboard; what is not here leads nowhere. */
function hrefFrom(file: string, href: string): string | null {
  if (/^(?:https?|mailto):/.test(href)) return href;
  const [name = "", anchor] = href.split("#", 2);
  const target = name ? path.resolve(path.dirname(file), name) : file;
  // Images and archives are built from a part of the repository: what lies outside docs/ may be missing.
  if (path.relative(ROOT, target).startsWith("..")) return null;
  if (!existsSync(target)) throw new Error(`${file}: there is no ${href}`);
  if (!isPage(target)) return path.relative(ROOT, target) === "README.md" ? "/docs/contents" : null;
  // Without a language it is that of the reader; a link from one language to the other is meant.
  let language = "";
  if (target.endsWith(CHINESE) && !file.endsWith(CHINESE)) language = "?lang=zh-CN";
  else if (file.endsWith(CHINESE) && !target.endsWith(CHINESE) && slugOf(file) === slugOf(target))
    language = "?lang=en";
  return `/docs/${slugOf(target)}${language}${anchor ? `#${anchor}` : ""}`;
}

const rendered = new Map<string, { text: string; page: Rendered }>();

/** A page as HTML, rendered anew when its text has changed. Throws for what a page cannot show. */
function renderPage(file: string): Rendered {
  const text = readFileSync(file, "utf8");
  const known = rendered.get(file);
  if (known?.text === text) return known.page;
  const page = render(file, text);
  rendered.set(file, { text, page });
  return page;
}

function render(file: string, text: string): Rendered {
  const anchor = anchors();
  const headings: DocHeading[] = [];
  const pictures: string[] = [];
  const marked = reader({
    renderer: {
      html: ({ text }) => {
        const kept = text.replace(/<!--.*?-->/gs, "");
        for (const [tag] of kept.matchAll(/<[^>]*>/g))
          if (!ALLOWED.test(tag)) throw new Error(`${file}: pages cannot show ${tag}`);
        return kept;
      },
      heading({ depth, tokens }) {
        const title = wordsOf(tokens);
        const id = anchor(title);
        headings.push({ id, title, level: depth });
        return `<h${depth} id="${escapeHtml(id)}" tabindex="-1">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens);
        const to = hrefFrom(file, href);
        return to === null ? inner : linkHtml(to, inner);
      },
      image({ href, text }) {
        const source = path.resolve(path.dirname(file), href);
        if (!existsSync(source)) throw new Error(`${file}: there is no picture ${href}`);
        return `<img src="${PICTURE(pictures.push(source) - 1)}" alt="${escapeHtml(text)}" loading="lazy">`;
      },
    },
  });
  const tokens = marked.lexer(text);
  const html = marked.parser(tokens);
  const sections: Rendered["sections"] = [];
  let no = -1;
  for (const token of tokens) {
    if (token.type === "heading") {
      no += 1;
      const { id = "", title = "", level = 1 } = headings[no] ?? {};
      sections.push({ id: level === 1 ? "" : id, title, text: "" });
    } else {
      const last = sections.at(-1);
      if (last) last.text = `${last.text} ${wordsOf([token])}`.trim();
    }
  }
  const title = headings[0]?.title;
  if (!title) throw new Error(`${file}: a page needs a heading`);
  return { title, html: withScrolls(html), headings: headings.slice(1), sections, pictures };
}

/** Rows of docs/README.md, which says what each page is for, in the order in which to read them. */
function purposes(): Map<string, { purpose: string; isStart: boolean }> {
  const found = new Map<string, { purpose: string; isStart: boolean }>();
  let group = "";
  for (const line of readFileSync(path.join(ROOT, "README.md"), "utf8").split("\n")) {
    if (line.startsWith("## ")) group = line.slice(3);
    const row = /^\| (.+?) \| \[[^\]]+\]\(([\w/-]+)\.md\)/.exec(line);
    if (row?.[1] && row[2] && !found.has(row[2]))
      found.set(row[2], { purpose: row[1], isStart: group === "Start here" });
  }
  return found;
}

/** Every page: its file in each language, and what is known of it without reading it. */
function allPages(): (DocInfo & { files: Record<string, string> })[] {
  const order = purposes();
  const slugs = FOLDERS.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder)).map((name) => path.join(ROOT, folder, name)),
  )
    .filter((file) => isPage(file) && !file.endsWith(CHINESE))
    .map(slugOf);
  const rank = new Map([...order.keys()].map((slug, at) => [slug, at]));
  return slugs
    .toSorted((a, b) => (rank.get(a) ?? Infinity) - (rank.get(b) ?? Infinity))
    .map((slug) => {
      const known = order.get(slug);
      if (!known) throw new Error(`docs/README.md does not list ${slug}.md`);
      const files: Record<string, string> = { en: path.join(ROOT, `${slug}.md`) };
      const chinese = path.join(ROOT, `${slug}${CHINESE}`);
      if (existsSync(chinese)) files["zh-CN"] = chinese;
      const titles = Object.fromEntries(
        Object.entries(files).map(([language, file]) => [language, renderPage(file).title]),
      );
      return { slug, titles, ...known, files };
    });
}

/** What can be searched of the pages in a language. */
function searchable(language: string): DocSection[] {
  return allPages().flatMap(({ slug, files }) => {
    const file = files[language];
    return file ? renderPage(file).sections.map((section) => ({ page: slug, ...section })) : [];
  });
}

/** A long text as data: browsers read it faster than code. */
const asJson = (value: unknown): string => `export default JSON.parse(${JSON.stringify(JSON.stringify(value))});\n`;

function listModule(): string {
  const pages = allPages();
  const loaders = pages.map(({ slug, files }) => {
    const each = Object.entries(files).map(
      ([language, file]) => `${JSON.stringify(language)}: () => import(${JSON.stringify(file)})`,
    );
    return `${JSON.stringify(slug)}: { ${each.join(", ")} }`;
  });
  const infos: DocInfo[] = pages.map(({ slug, titles, purpose, isStart }) => ({ slug, titles, purpose, isStart }));
  return `export const pages = ${JSON.stringify(infos)};\nexport const loaders = { ${loaders.join(",\n")} };\n`;
}

function pageModule(file: string): string {
  const { title, html, headings, pictures } = renderPage(file);
  const imports = pictures.map((source, no) => `import picture${no} from ${JSON.stringify(source)};`);
  const filled = pictures.map((_, no) => `.replace(${JSON.stringify(PICTURE(no))}, picture${no})`);
  return [
    ...imports,
    `export default { title: ${JSON.stringify(title)}, headings: ${JSON.stringify(headings)},`,
    `  html: ${JSON.stringify(html)}${filled.join("")} };\n`,
  ].join("\n");
}

/** The list of pages for programs that read, in the form of https://llmstxt.org. */
function llmsText(): string {
  const lines = ["# Muster", "", "> Self-hosted dashboard and REST service for cluster training.", ""];
  for (const { slug, titles, purpose } of allPages())
    lines.push(`- [${titles["en"] ?? slug}](docs/${slug}.md): ${purpose}`);
  return `${lines.join("\n")}\n`;
}

export function documentation(): Plugin {
  return {
    name: "documentation",
    enforce: "pre",
    resolveId: (id) => (id === LIST || id.startsWith(SEARCH) ? `\0${id}` : null),
    load(id) {
      const isList = id === `\0${LIST}`;
      if (isList || id.startsWith(`\0${SEARCH}`)) {
        for (const { files } of allPages()) for (const file of Object.values(files)) this.addWatchFile(file);
        return isList ? listModule() : asJson(searchable(id.slice(SEARCH.length + 1)));
      }
      return isPage(id) ? { code: pageModule(id), moduleType: "js" } : null;
    },
    // Each page once more as it was written, at the page's address with .md.
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "llms.txt", source: llmsText() });
      for (const { slug, files } of allPages())
        for (const [language, file] of Object.entries(files)) {
          const fileName = `docs/${slug}${language === "en" ? ".md" : CHINESE}`;
          this.emitFile({ type: "asset", fileName, source: readFileSync(file) });
        }
    },
  };
}
