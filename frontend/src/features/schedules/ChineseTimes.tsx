import cronstrue from "cronstrue";
import "cronstrue/locales/zh_CN";

/** A cron expression in Chinese: "每天 02:00", "09:30，星期一至星期五". */
export function inChinese(cron: string): string {
  const said = cronstrue.toString(cron, {
    locale: "zh_CN",
    use24HourTimeFormat: true,
    throwExceptionOnParseError: false,
  });
  const text = said.replaceAll(", ", "，").replaceAll(/ {2,}/g, " ");
  return /^在\d\d:\d\d$/.test(text) ? `每天 ${text.slice(1)}` : text.replace(/^在(?=\d)/, "");
}

/** In a module of its own, for the words of the other language come from the server. */
export default function ChineseTimes({ cron }: { cron: string }) {
  return `${inChinese(cron)} `;
}
