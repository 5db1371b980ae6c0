/** Made by scripts/documentation.ts. */
declare module "virtual:docs" {
  export const pages: import("./types").DocInfo[];
  export const loaders: Record<string, Record<string, () => Promise<{ default: import("./types").DocPage }>>>;
}

declare module "virtual:docs-search/en" {
  const sections: import("./types").DocSection[];
  export default sections;
}

declare module "virtual:docs-search/zh-CN" {
  const sections: import("./types").DocSection[];
  export default sections;
}
