export const search = {
  objectives: {
    title: "多目标",
    note_one: "{{all}} 个试验中有 {{count}} 个未被其他试验全面超过",
    note_other: "{{all}} 个试验中有 {{count}} 个未被其他试验全面超过",
    label: "{{y}} 与 {{x}} 的关系，{{count}} 个试验",
    key: "每个点是一个试验的最终值，被其他试验超过的较淡；折线连接未被超过的试验。",
    across: "横轴",
    up: "纵轴",
    none: "还没有试验结束时报告了所有目标。",
    table: "未被超过的试验",
  },
  population: {
    schedule: "最佳试验的由来",
    scheduleNote_one: "{{count}} 个试验",
    scheduleNote_other: "{{count}} 个试验，每个都是前一个的克隆",
    clones_one: "{{count}} 个克隆",
    clones_other: "{{count}} 个克隆",
    generation: "代",
    noClone: "最佳试验不是克隆：它的超参数从一开始就没有变过。",
  },
};
