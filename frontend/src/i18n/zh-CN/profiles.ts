import type { profiles as english } from "../en/profiles";
import type { Same } from "../same";

export const profiles: Same<typeof english> = {
  profiles: {
    title: "性能剖析",
    note: "用 torch 的 profiler 记录所选 rank 若干步的轨迹",
    ranks: "哪些 rank",
    ranksWrong: "请填数字，例如 0,1",
    steps: "步数",
    ask: "记录轨迹",
    askHint: "训练继续进行。被记录的步骤及其后一步会变慢。",
    window: "窗口",
    of: "窗口 {{no}}，rank {{rank}}",
    node: "节点",
    asked: "请求时间",
    size: "大小",
    trace: "查看",
    waiting: "记录中",
    open: "打开",
    openHint: "在新标签页用随仪表盘提供的查看器（speedscope）显示轨迹。",
    perfettoHint: "在新标签页打开 ui.perfetto.dev（需要互联网）并把轨迹交给它。轨迹只留在您的浏览器中。",
    download: "下载",
    perfetto: {
      blocked: "浏览器没有打开标签页。请允许本页弹出窗口，或下载轨迹。",
      silent:
        "ui.perfetto.dev 没有响应：它需要互联网。请在此处打开轨迹，或下载后用手头的查看器打开，例如 chrome://tracing。",
      failed: "无法取得轨迹。",
    },
  },
  foreseen: {
    title: "预期与实测",
    note: "规划器对该文档的估计与试验自身测得的数值，{{n}} 行",
    what: "项目",
    memory: "一个槽位中张量的内存",
    bytes: "每个 worker 每步发送",
    step: "一步的时间",
    expected: "预期",
    measured: "实测",
    ratio: "预期 / 实测",
    details: "说明",
    far: "{{figure}}：预期值是测量值的 {{ratio}} 倍。",
    rss: "在处理器上只能测量整个进程：{{size}}，包含解释器和库。",
  },
};
