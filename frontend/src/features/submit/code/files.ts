/** The files of a code folder that is sent. */

export interface CodeFile {
  /** Relative to the folder, with slashes. */
  name: string;
  data: Blob;
  /** Its owner may run it. */
  isExecutable?: boolean;
}

/** The same bounds as on the command line and on the server. */
export const MAX_FILES = 20_000;
export const MAX_BUNDLE_BYTES = 100 * 1_048_576;
export const MAX_LEFT_OUT = 200;
/** Text compresses some five times; more than this is not tried. */
export const MAX_FOLDER_BYTES = 20 * MAX_BUNDLE_BYTES;
export const MAX_PATH_CHARS = 1000;

export interface LeftOut {
  /** That of a folder ends with a slash. */
  name: string;
  numFiles: number;
  bytes: number;
}

export interface FolderContents {
  files: CodeFile[];
  /** Largest first; without version control and caches. */
  leftOut: LeftOut[];
}

export const bytesOf = (files: readonly CodeFile[]): number => files.reduce((sum, { data }) => sum + data.size, 0);
