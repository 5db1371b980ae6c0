import type { states as english } from "../en/states";
import type { Same } from "../same";

export const states: Same<typeof english> = {
  state: {
    DRAFT: "草稿",
    QUEUED: "排队中",
    PLANNED: "已计划",
    WAITING: "等待中",
    PREPARING: "准备中",
    STARTING: "启动中",
    RUNNING: "运行中",
    WINDING_DOWN: "收尾中",
    PAUSED: "已暂停",
    STOPPING: "停止中",
    RETRY_WAIT: "等待重启",
    COMPLETED: "已完成",
    DOUBTFUL: "存疑",
    SUCCEEDED: "成功",
    STOPPED_EARLY: "提前停止",
    CANCELED: "已取消",
    PREEMPTED: "被抢占",
    RESIZED: "已调整规模",
    FAILED: "失败",
    LOST: "失联",
    JOINING: "加入中",
    ONLINE: "在线",
    SUSPECT: "无心跳",
    RECONCILING: "核对中",
    REMOVED: "已移除",
  },
  held: { of: "{{held}} / {{asked}} {{type}}", ofSearch: "{{held}} {{type}}（每个 {{asked}}）" },
  flag: { STALLED: "停滞", DEGRADED: "降级", UNREACHABLE: "不可达", QUIET: "无输出" },
};
