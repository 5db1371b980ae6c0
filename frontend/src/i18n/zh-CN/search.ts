export const search = {
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
