/**
 * Markdown to HTML. Nothing of the source becomes HTML by itself: tags are shown as text, and links
 * lead only to addresses that are safe to click. What a renderer of its own allows more, it answers for.
 */
import { Marked, type MarkedExtension, type RendererObject, type Tokens } from "marked";

const ENTITY_OR_SPECIAL = /[<>"']|&(?!(?:#\d{1,7}|#x[\da-f]{1,6}|\w+);)/gi;
const SPECIAL = /[<>"'&]/g;
const NAMES: Record<string, string> = { "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "&": "&amp;" };

/** Text as HTML shows it letter by letter. */
export const escapeHtml = (text: string): string => text.replace(SPECIAL, (found) => NAMES[found] ?? found);

/** The same, where the author may write "&eacute;". */
const escapeProse = (text: string): string => text.replace(ENTITY_OR_SPECIAL, (found) => NAMES[found] ?? found);

/** An address of this site or of the web. Scripts, data and addresses without a scheme's end are none. */
const SAFE_LINK = /^(?:https?:\/\/|mailto:|#|\/(?![/\\]))/i;
const ELSEWHERE = /^https?:/i;
const HEADING_SHIFT = 2;
const LOWEST_HEADING = 6;

/** A link as HTML, or its text alone where the address is not one to click. */
export function linkHtml(href: string, inner: string): string {
  if (!SAFE_LINK.test(href)) return inner;
  const away = ELSEWHERE.test(href) ? ' target="_blank" rel="noopener noreferrer"' : "";
  return `<a href="${escapeHtml(href)}"${away}>${inner}</a>`;
}

const renderer: RendererObject = {
  html: ({ text }) => escapeHtml(text),
  // The library leaves text after a raw <pre> as it is; here there is no raw HTML.
  text(token) {
    return "tokens" in token && token.tokens ? this.parser.parseInline(token.tokens) : escapeProse(token.text);
  },
  link({ href, tokens }) {
    return linkHtml(href, this.parser.parseInline(tokens));
  },
  // The policy of the dashboard loads pictures of this server only.
  image: ({ href, text }) => linkHtml(href, escapeProse(text || href)),
  // A page has its own first two levels.
  heading({ depth, tokens }) {
    const level = Math.min(LOWEST_HEADING, depth + HEADING_SHIFT);
    return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
  },
  code: ({ text }) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
};

/** A reader of Markdown with the rules above, and with `extension` beside or in place of them. */
export function reader(extension?: MarkedExtension): Marked {
  const marked = new Marked({ gfm: true, async: false }, { renderer });
  return extension ? marked.use(extension) : marked;
}

/** Wide tables scroll by themselves, also by keyboard; a column without a name has no empty heading. */
export const withScrolls = (html: string): string =>
  html
    .replaceAll("<table>", '<div data-scrolls tabindex="0"><table>')
    .replaceAll("</table>", "</table></div>")
    .replaceAll(/<th(?: align="\w+")?><\/th>/g, "<td></td>");

const notes = reader({ breaks: true });

/** What somebody wrote into notes, as HTML. Its headings begin at the first level and leave none out. */
export function notesHtml(text: string): string {
  const tokens = notes.lexer(text);
  const above: number[] = [];
  notes.walkTokens(tokens, (token) => {
    if (token.type !== "heading") return;
    const heading = token as Tokens.Heading;
    while ((above.at(-1) ?? 0) >= heading.depth) above.pop();
    heading.depth = above.push(heading.depth);
  });
  return withScrolls(notes.parser(tokens));
}
