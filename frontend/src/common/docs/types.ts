/** A page of the documentation, as the list of them knows it. */
export interface DocInfo {
  /** "guides/quickstart": its address behind /docs/. */
  slug: string;
  /** Its title in each language in which it is there: English always. */
  titles: Record<string, string>;
  /** What one reads it for, in English: "train something in five minutes". */
  purpose: string;
  /** Whether newcomers begin with it. */
  isStart: boolean;
}

export interface DocHeading {
  id: string;
  title: string;
  /** 2 for a section, 3 for a part of it, … */
  level: number;
}

export interface DocPage {
  title: string;
  html: string;
  headings: DocHeading[];
}

/** A heading with what stands below it, without marks. */
export interface DocSection {
  page: string;
  /** Empty for what stands before the first section. */
  id: string;
  title: string;
  text: string;
}
