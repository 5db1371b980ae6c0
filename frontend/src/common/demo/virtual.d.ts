/** Made by scripts/demo.ts. */
declare module "virtual:demo" {
  /** code: the archive in base64, of which sha256 is the name; null where a document needs none. */
  export interface Example {
    document: string;
    sha256: string | null;
    code: string | null;
  }
  export const examples: [Example, ...Example[]];
}
