import { ApiError } from "../api/client";
import { said } from "../i18n/server";

/** Why something ended or what happened: by its code where the language has a text for it, then as the server put it. */
export function Said({ kind, code, text }: { kind: "terminations" | "events"; code: string | null | undefined; text: string }) {
  const own = said(kind, code);
  if (own === null) return text;
  return (
    <>
      {own}
      {text ? <Original text={text} /> : null}
    </>
  );
}

/** The server's own sentence, which is English and names the particulars. */
export function Original({ text }: { text: string }) {
  return (
    <span className="dim" lang="en">
      {" "}
      {text}
    </span>
  );
}

/** An error in one line: what it is, and what to do. */
export function errorLine(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  const own = said("errors", error.code);
  return own ? `${own}（${error.message}）` : [error.message, error.hint].filter(Boolean).join(" ");
}
