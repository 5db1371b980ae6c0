import type { docs as english } from "../en/docs";
import type { Same } from "../same";

export const docs: Same<typeof english> = {
  docs: {
    guide: "打开文档",
    guideAbout: "文档：{{what}}",
    contents: "文档",
    contentsLead: "当前安装版本的指南、概念与参考。",
    start: "从这里开始",
    guides: "指南",
    concepts: "概念",
    reference: "参考",
    pages: "文档页面",
    allPages: "全部页面",
    onThisPage: "本页内容",
    search: "搜索文档",
    found_one: "{{count}} 个章节",
    found_other: "{{count}} 个章节",
    foundMax: "匹配度最高的 {{n}} 个章节",
    none: "没有章节包含全部这些词",
    noneHint: "请减少词数，或只输入词的开头。",
    onlyEnglish: "此页暂时只有英文版。",
    previous: "上一页",
    next: "下一页",
    otherLanguage: "阅读此页的英文版",
  },
  notes: { markdown: "支持 Markdown 格式", preview: "预览" },
};
