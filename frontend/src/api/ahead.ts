/**
 * Answers that were asked for before the part of the page that wants them was drawn. Each is taken
 * once, by the same question; one that nobody has come for within KEPT_MS is forgotten.
 */
const KEPT_MS = 10_000;
const KEPT_MAX = 16;

const asked = new Map<string, Promise<unknown>>();

/** question: says everything that the answer depends on. */
export function askAhead(question: string, ask: () => Promise<unknown>): void {
  if (asked.has(question) || asked.size >= KEPT_MAX) return;
  const answer = ask();
  asked.set(question, answer);
  const forget = (): void => {
    if (asked.get(question) === answer) asked.delete(question);
  };
  // Who wants it asks again, and is told why it fails.
  answer.catch(forget);
  setTimeout(forget, KEPT_MS);
}

/** The answer on its way, or `ask` now. */
export function askedAhead<T>(question: string, ask: () => Promise<T>): Promise<T> {
  const known = asked.get(question) as Promise<T> | undefined;
  asked.delete(question);
  return known ? known.catch(ask) : ask();
}
