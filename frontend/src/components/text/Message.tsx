import { Link } from "@tanstack/react-router";

import { ApiError, type FieldError } from "../../api/client";
import { clausesOf, COLON, type Part, messageOf, messageParts } from "../../i18n/server";

/** A sentence of the server, which stands behind another one there and by itself here. Names of files and code stay. */
export const sentence = (text: string): string =>
  clausesOf(text) ?? text.replace(/^[a-z](?=[a-z]*(?: |$))/, (first) => first.toUpperCase());

/** Why something ended or what happened: by its code where the language has a text for it, then as the server put it. */
export function Message({
  kind,
  code,
  text,
}: {
  kind: "terminations" | "events";
  code: string | null | undefined;
  text: string;
}) {
  const own = messageOf(kind, code);
  if (own === null) return sentence(text);
  return (
    <span>
      {own}
      {text ? <Original text={text} /> : null}
    </span>
  );
}

/** Why something waits or may not be: from its parts where the language has them, else as the server put it. */
export function Reason({ text, parts }: { text: string; parts: readonly Part[] | undefined }) {
  const own = messageParts(parts);
  // One element: the cells of a card are flexible boxes, which would set its pieces side by side.
  return (
    <span>
      <Marked text={own ?? text} parts={parts} />
      {own?.endsWith(COLON) ? <Original text={text} /> : null}
    </span>
  );
}

/** A sentence in which backticks enclose code, and the experiments that its parts name are links. */
function Marked({ text, parts }: { text: string; parts: readonly Part[] | undefined }) {
  const named = new Set(parts?.map(({ params }) => String(params["experiment"])));
  return text.split(MARKED).map((piece, index) => {
    if (piece.startsWith("`")) return <code key={index}>{piece.slice(1, -1)}</code>;
    const id = piece.split(" ")[1];
    if (index % 2 === 0 || !id || !named.has(id)) return piece;
    return (
      <Link key={index} to="/experiments/$experimentId" params={{ experimentId: id }}>
        {piece}
      </Link>
    );
  });
}

/** What stands between is every second piece. */
const MARKED = /(`[^`]*`|(?:experiment|实验) \d+)/;

/** The same where only text can stand. */
export function reasonText(text: string, parts: readonly Part[] | undefined): string {
  const own = messageParts(parts);
  return own === null ? text : own.endsWith(COLON) ? own + text : own;
}

/** What is wrong with a field of what was sent; the server has no code for everything that can be. */
const UNUSABLE: readonly Part[] = [{ code: "field.unusable", params: {} }];
const partsOf = (error: FieldError): readonly Part[] => (error.parts?.length ? error.parts : UNUSABLE);

export function FieldMessage({ error }: { error: FieldError }) {
  return (
    <>
      <Reason text={error.message} parts={partsOf(error)} />
      {error.hint ? <span className="dim"> · {error.hint}</span> : null}
    </>
  );
}

export const fieldText = (error: FieldError): string =>
  [reasonText(error.message, partsOf(error)), error.hint].filter(Boolean).join(" · ");

/** The server's own sentence, which is English; in another language its clauses that are known there. */
export function Original({ text }: { text: string }) {
  const own = clausesOf(text);
  return (
    <span className="dim" lang={own === null ? "en" : undefined}>
      {" "}
      {own ?? text}
    </span>
  );
}

/** An error in one line: what it is, and what to do. */
export function errorLine(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  const own = messageOf("errors", error.code);
  return own ? `${own}（${error.message}）` : [error.message, error.hint].filter(Boolean).join(" ");
}
