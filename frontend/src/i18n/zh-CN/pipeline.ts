import type { pipeline as english } from "../en/pipeline";
import type { Same } from "../same";

export const pipeline: Same<typeof english> = {
  pipeline: {
    title: "一步的调度",
    forward: "前向",
    backward: "反向",
    part: "部分",
    micro: "微批次",
    from: "开始",
    to: "结束",
    worker: "工作进程 {{no}}",
    box: "微批次 {{micro}} 的{{kind}}，阶段 {{stage}}：{{from}} 至 {{to}}",
    label: "调度 {{schedule}}，{{micros}} 个微批次：仅按顺序各阶段会等待一步的 {{idle}}；实测为 {{measured}}",
    note: "按 {{schedule}} 的顺序、{{micros}} 个微批次和各阶段的平均时间（{{n}} 行）绘制，假定发送不花时间；不是录像。此时各阶段会等待一步的 {{idle}}；实测为 {{measured}}。",
    notDrawn: "{{schedule}} 的顺序不绘制：它单独计算权重的梯度，而这部分没有单独测量。",
    tooMany: "{{count}} 个微批次太多，无法绘制，或没有实测数据。",
  },
};
