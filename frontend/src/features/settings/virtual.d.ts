/** Made by scripts/licenses.ts. */
declare module "virtual:licenses" {
  /** Packages that the built dashboard contains, by name. */
  export const packages: { name: string; version: string; license: string }[];
}
