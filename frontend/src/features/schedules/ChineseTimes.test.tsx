import { expect, test } from "vitest";

import { inChinese } from "./ChineseTimes";

test.each([
  ["0 2 * * *", "每天 02:00"],
  ["30 9 * * mon-fri", "09:30，星期一至星期五"],
  ["*/15 * * * *", "每隔 15 分钟"],
  ["0 3 1,15 * *", "03:00，限每月 1 号 和 15 号"],
  ["5 4 * * 7", "04:05，仅星期日"],
])("%s", (cron, said) => {
  expect(inChinese(cron)).toBe(said);
});

test("what cannot be read breaks no page", () => {
  expect(inChinese("0 2 * * L-x")).not.toBe("");
});
