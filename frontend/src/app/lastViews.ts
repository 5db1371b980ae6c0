/** How each page was left: its filters and where it was scrolled, for the way back by a breadcrumb. */

export interface View {
  search: object;
  /** Under which the router remembers where things were scrolled. */
  scrollKey: string;
}

const REMEMBERED = 50;
const views = new Map<string, View>();

/** Remember a page as it is now; of too many, the one that was not visited for longest is forgotten. */
export function rememberView(pathname: string, view: View): void {
  views.delete(pathname);
  views.set(pathname, view);
  const oldest = views.keys().next().value;
  if (views.size > REMEMBERED && oldest !== undefined) views.delete(oldest);
}

export const lastView = (pathname: string): View | undefined => views.get(pathname);
