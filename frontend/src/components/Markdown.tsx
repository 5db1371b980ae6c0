import { Fragment, type ReactNode } from "react";

import css from "./markdown.module.css";

/** Other addresses, such as javascript:, are shown as text. */
const LINK = /^(https?:\/\/|\/(?!\/)|#|mailto:)/i;
const INLINE =
  /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|\*(\S(?:.*?\S)?)\*|(?<![\p{L}\p{N}])_(\S(?:.*?\S)?)_(?![\p{L}\p{N}])|\[([^\]]+)\]\(([^)\s]+)\)/gu;

function inline(text: string): ReactNode {
  const out: ReactNode[] = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, strong, strong2, soft, soft2, label, href] = found;
    if (found.index > end) out.push(text.slice(end, found.index));
    end = found.index + whole.length;
    const key = found.index;
    const bold = strong ?? strong2;
    const italic = soft ?? soft2;
    if (code !== undefined) out.push(<code key={key}>{code.trim()}</code>);
    else if (bold !== undefined) out.push(<strong key={key}>{inline(bold)}</strong>);
    else if (italic !== undefined) out.push(<em key={key}>{inline(italic)}</em>);
    else if (href !== undefined && LINK.test(href))
      out.push(
        <a key={key} href={href} rel="noreferrer" target={/^https?:/i.test(href) ? "_blank" : undefined}>
          {inline(label ?? "")}
        </a>,
      );
    else out.push(whole);
  }
  if (end < text.length) out.push(text.slice(end));
  return out.map((part, at) =>
    // oxlint-disable-next-line react/no-array-index-key -- parts of a text that is drawn as a whole
    typeof part === "string" ? <Fragment key={`t${at}`}>{part}</Fragment> : part,
  );
}

type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "code" | "text" | "quote"; text: string }
  | { kind: "list"; ordered: boolean; items: string[] }
  | { kind: "table"; head: string[]; rows: string[][] }
  | { kind: "rule" };

const ITEM = /^\s*(?:([-*+])|(\d+)[.)])\s+(.*)$/;
const cells = (line: string): string[] =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim());
const isRow = (line: string | undefined): boolean => line !== undefined && line.includes("|");
const isDivider = (line: string | undefined): boolean =>
  line !== undefined && line.includes("-") && /^[\s|:-]+$/.test(line) && line.includes("|");
const begins = (line: string): boolean => /^(#{1,6}\s|```|>|\s*([-*_])(\s*\2){2,}\s*$)/.test(line) || ITEM.test(line);

/** The blocks of a text in Markdown: headings, paragraphs, lists, quotes, tables, code and rules. */
export function blocksOf(text: string): Block[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const out: Block[] = [];
  let at = 0;
  const gather = (goesOn: (line: string) => boolean): string[] => {
    const begin = at;
    while (at < lines.length && goesOn(lines[at] ?? "")) at += 1;
    return lines.slice(begin, at);
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === "") at += 1;
    else if (line.startsWith("```")) {
      at += 1;
      out.push({ kind: "code", text: gather((next) => !next.startsWith("```")).join("\n") });
      at += 1;
    } else if (heading) {
      out.push({ kind: "heading", level: heading[1]?.length ?? 1, text: heading[2] ?? "" });
      at += 1;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push({ kind: "rule" });
      at += 1;
    } else if (line.startsWith(">"))
      out.push({
        kind: "quote",
        text: gather((next) => next.startsWith(">"))
          .map((one) => one.replace(/^>\s?/, ""))
          .join("\n"),
      });
    else if (item) {
      const ordered = item[2] !== undefined;
      const items: string[] = [];
      for (const one of gather((next) => ITEM.test(next) || /^\s+\S/.test(next))) {
        const found = ITEM.exec(one);
        if (found) items.push(found[3] ?? "");
        else items.push(`${items.pop() ?? ""} ${one.trim()}`);
      }
      out.push({ kind: "list", ordered, items });
    } else if (isRow(line) && isDivider(lines[at + 1])) {
      at += 2;
      out.push({ kind: "table", head: cells(line), rows: gather(isRow).map(cells) });
    } else {
      const first = at;
      out.push({
        kind: "text",
        text: gather((next) => next.trim() !== "" && (at === first || !begins(next))).join("\n"),
      });
    }
  }
  return out;
}

function Shown({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading": {
      // Below the title of the page and of what holds the text.
      const Tag = block.level <= 1 ? "h4" : block.level === 2 ? "h5" : "h6";
      return <Tag>{inline(block.text)}</Tag>;
    }
    case "code":
      return (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
        <pre tabIndex={0}>{block.text}</pre>
      );
    case "quote":
      return (
        <blockquote>
          <Markdown text={block.text} />
        </blockquote>
      );
    case "list": {
      const Tag = block.ordered ? "ol" : "ul";
      return (
        <Tag>
          {block.items.map((item, at) => (
            // oxlint-disable-next-line react/no-array-index-key -- items of a text that is drawn as a whole
            <li key={at}>{inline(item)}</li>
          ))}
        </Tag>
      );
    }
    case "table":
      return (
        <table>
          <thead>
            <tr>
              {block.head.map((cell, at) => (
                // oxlint-disable-next-line react/no-array-index-key -- cells of a text that is drawn as a whole
                <th key={at} scope="col">
                  {inline(cell)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {block.rows.map((row, at) => (
              // oxlint-disable-next-line react/no-array-index-key -- rows of a text that is drawn as a whole
              <tr key={at}>
                {block.head.map((_, column) => (
                  // oxlint-disable-next-line react/no-array-index-key -- cells of a text that is drawn as a whole
                  <td key={column}>{inline(row[column] ?? "")}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    case "rule":
      return <hr />;
    default:
      return <p>{inline(block.text)}</p>;
  }
}

/** A text in Markdown. Markup in it is text: nothing of it becomes an element but what is written in Markdown. */
export function Markdown({ text }: { text: string }) {
  return (
    <div className={css["markdown"]}>
      {blocksOf(text).map((block, at) => (
        // oxlint-disable-next-line react/no-array-index-key -- blocks of a text that is drawn as a whole
        <Shown key={at} block={block} />
      ))}
    </div>
  );
}
