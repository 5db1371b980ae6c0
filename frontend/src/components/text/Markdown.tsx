import { useQuery } from "@tanstack/react-query";

import layout from "../layout.module.css";
import { Prose } from "./Prose";

/** Text in Markdown; as it was written until the code for that is here. */
export function Markdown({ text }: { text: string }) {
  const markdown = useQuery({
    queryKey: ["code", "markdown"],
    queryFn: () => import("../../lib/text/markdown").then(({ notesHtml }) => ({ notesHtml })),
    staleTime: Infinity,
    gcTime: Infinity,
  }).data;
  if (!markdown) return <div className={layout["asWritten"]}>{text}</div>;
  return <Prose html={markdown.notesHtml(text)} />;
}
