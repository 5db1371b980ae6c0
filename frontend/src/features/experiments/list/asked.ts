/** What the address of the experiments page asks for. */
import { type ExperimentFilter, experiments, PAGE, type TableShape } from "../../../api/queries";
import type { Early } from "../../../app/lazyPage";
import type { ExperimentsSearch } from "../../../app/search";
import { EXPERIMENT_STATES, pickStates } from "../../../lib/states";
import { labelsOf, readColumns, readConditions, valuesOf } from "./tableColumns";

/** Which experiments, in which order, with which columns. */
export function askedFor(search: ExperimentsSearch) {
  const states = pickStates(EXPERIMENT_STATES, search.state);
  const labels = labelsOf(search.label);
  const where = readConditions(search.where);
  const columns = readColumns(search.cols);
  const filter: ExperimentFilter = {
    state: states.length > 0 ? states : undefined,
    project: search.project,
    q: search.q,
    label: labels.length > 0 ? labels : undefined,
    archived: search.archived,
    where: where.length > 0 ? where : undefined,
  };
  const values = valuesOf(columns);
  const shape: TableShape = { sort: search.sort, column: values.length > 0 ? values : undefined };
  return { states, labels, where, columns, filter, shape };
}

export type Asked = ReturnType<typeof askedFor>;

/** Ask for the first rows while the code of the page is on its way; the page finds the same question under way. */
export function askForFirstRows({ queryClient, search }: Early): Promise<void> {
  const { filter, shape } = askedFor(search as ExperimentsSearch);
  return queryClient.prefetchInfiniteQuery(experiments(filter, PAGE, shape));
}
