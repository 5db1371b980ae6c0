import type { checkpointList as english } from "../../en/trial/checkpointList";
import type { Same } from "../../same";

export const checkpointList: Same<typeof english> = {
  checkpointList: {
    pageHint: "所有可用于恢复训练的检查点，以及它们占用的存储。",
    experiment: "实验",
    metric: "保存时的指标",
    marks: "标记",
    actions: "第 {{step}} 步检查点的操作",
    order: "排序",
    newest: "最新",
    largest: "最大",
    complete: "完整",
    local: "仅在本地",
    localOn: "仅在 {{node}} 本地",
    deleting: "正在删除",
    deleted: "已删除",
    total: "{{state}}：{{n}} 个，{{size}}",
    freed: "{{state}}：{{n}} 个，已释放 {{size}}",
    noMatch: "没有处于此状态的检查点",
  },
};
