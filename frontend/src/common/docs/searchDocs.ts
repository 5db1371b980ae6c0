/** Finds sections of the documentation by their words. */
import type { DocSection } from "./types";

export interface DocHit {
  section: DocSection;
  /** Text around the first word that was found. */
  excerpt: string;
}

const IN_TITLE = 10;
const STARTS_WORD = 4;
const AS_WRITTEN = 6;
const BEFORE = 40;
const EXCERPT = 160;

const isWord = (letter: string | undefined): boolean => letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);

/** How well one word fits; 0 where it does not occur. */
function fit(title: string, text: string, word: string): number {
  const inTitle = title.indexOf(word);
  const inText = text.indexOf(word);
  if (inTitle < 0 && inText < 0) return 0;
  const starts = (body: string, at: number): number => (at >= 0 && !isWord(body[at - 1]) ? STARTS_WORD : 0);
  return 1 + (inTitle >= 0 ? IN_TITLE + starts(title, inTitle) : 0) + starts(text, inText);
}

function excerptOf(text: string, word: string): string {
  const at = Math.max(0, text.toLowerCase().indexOf(word));
  if (at <= BEFORE) return text.length > EXCERPT ? `${text.slice(0, EXCERPT)}…` : text;
  const from = text.indexOf(" ", at - BEFORE) + 1;
  const start = from > 0 && from <= at ? from : at - BEFORE;
  return `…${text.slice(start, start + EXCERPT)}${start + EXCERPT < text.length ? "…" : ""}`;
}

/**
 * At most `limit` sections that have every word of the query, the best first: words in headings before
 * words in text, beginnings of words before their middles, the query as written before its words apart.
 * An empty query finds nothing.
 */
export function searchDocs(sections: readonly DocSection[], query: string, limit: number): DocHit[] {
  const wanted = query.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found: { section: DocSection; score: number }[] = [];
  for (const section of sections) {
    const title = section.title.toLowerCase();
    const text = section.text.toLowerCase();
    const fits = words.map((word) => fit(title, text, word));
    if (fits.includes(0)) continue;
    const whole = words.length > 1 && (title.includes(wanted) || text.includes(wanted)) ? AS_WRITTEN : 0;
    found.push({ section, score: fits.reduce((sum, one) => sum + one, whole) });
  }
  return found
    .toSorted((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ section }) => ({ section, excerpt: excerptOf(section.text, words[0] ?? "") }));
}
