import type { pipeline as english } from "../../en/trial/pipeline";
import type { Same } from "../../same";

export const pipeline: Same<typeof english> = {
  pipeline: {
    title: "流水线调度",
    forward: "前向",
    backward: "反向",
    backward_input: "反向：输入的梯度",
    backward_weight: "反向：权重的梯度",
    message: "消息",
    rank: "全局 rank",
    part: "部分",
    micro: "微批次",
    from: "开始",
    to: "结束",
    which: "流水线",
    no: "流水线 {{no}}",
    box: "微批次 {{micro}} 的{{kind}}，阶段 {{stage}}：{{from}} 至 {{to}}",
    label: "调度 {{schedule}} 的第 {{step}} 步，{{micros}} 个微批次：工作进程有 {{idle}} 的时间没有计算",
    note: "记录自第 {{step}} 步，调度 {{schedule}}，{{micros}} 个微批次。在所示时间内，工作进程有 {{idle}} 没有计算；{{n}} 行平均，各阶段互相等待占一步的 {{measured}}。",
    clocks: "各工作进程的时钟按消息对齐，误差不超过 {{error}}。",
    clocksApart: "部分工作进程的时钟无法比较：它们的行可能有偏移。",
    leftOut_one: "另有 {{count}} 个操作未保留。",
    leftOut_other: "另有 {{count}} 个操作未保留。",
    none: "尚未记录任何一步。内置训练器在 CPU 上会记录，首次在 4 步之后；在 CUDA 上不记录。",
  },
};
