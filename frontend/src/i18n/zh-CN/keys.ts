import type { keys as english } from "../en/keys";
import type { Same } from "../same";

export const keys: Same<typeof english> = {
  keys: {
    title: "键盘快捷键",
    anywhere: "任何位置",
    inCharts: "在获得焦点的图上",
    inEditor: "编写文档时",
    palette: "前往任意页面、实验或节点",
    map: "显示快捷键",
    filter: "到页面的筛选框",
    goTo: "前往{{page}}",
    cursor: "移动光标，并读出数值",
    ends: "第一个和最后一个点",
    pan: "移动窗口",
    zoom: "放大和缩小",
    reset: "重置缩放",
    logY: "y 轴对数",
    logX: "x 轴对数",
    smoothing: "下一档平滑",
    full: "全屏",
    table: "表格或图表",
    submit: "提交",
    single: "不带 Ctrl 的按键在任何位置可用",
    singleHint: "关闭后，只保留获得焦点的图上的按键。",
  },
};
