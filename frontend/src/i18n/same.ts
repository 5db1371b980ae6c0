/** The shape that another language must fill: the same keys, with texts of its own. */
export type Same<T> = { [K in keyof T]: T[K] extends string ? string : Same<T[K]> };
