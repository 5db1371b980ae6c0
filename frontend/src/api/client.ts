/** The one way to the REST API: typed by the generated schema, errors as ApiError. */
import createClient, {
  type ClientPathsWithMethod,
  type FetchResponse,
  type MaybeOptionalInit,
  type Middleware,
} from "openapi-fetch";

import { SERVER } from "../lib/address";
import { learnServerTime } from "../lib/time";
import type { components, paths } from "./schema.gen";

export type Schemas = components["schemas"];
type ProblemBody = {
  code: string;
  message: string;
  hint?: string | null;
  request_id?: string | null;
  fields?: FieldError[];
};
export type FieldError = Omit<Schemas["FieldError"], "parts"> & Partial<Pick<Schemas["FieldError"], "parts">>;

/** What went wrong, as the server put it. `status` 0: the server was not reached. */
export class ApiError extends Error {
  override name = "ApiError";
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly fields: FieldError[] = [],
    readonly requestId: string | null = null,
  ) {
    super(message);
  }
}

function isProblem(body: unknown): body is { error: ProblemBody } {
  if (typeof body !== "object" || body === null || !("error" in body)) return false;
  const error = (body as { error: unknown }).error;
  return typeof error === "object" && error !== null && "code" in error && "message" in error;
}

export function toApiError(status: number, body: unknown, requestId: string | null): ApiError {
  if (isProblem(body)) {
    const { code, message, hint, fields, request_id } = body.error;
    return new ApiError(status, code, message, hint ?? null, fields ?? [], request_id ?? requestId);
  }
  return new ApiError(status, "http", `The server answered ${status}.`, null, [], requestId);
}

export const PATIENCE_MS = 30_000;

/** Told about every answer and every failure to get one (see live.ts, session.ts). */
export const network = {
  onReached: (): void => {},
  onUnreached: (): void => {},
  onUnauthenticated: (): void => {},
  /** How long an answer may take to begin before the server counts as not reached. */
  patienceMs: (): number => PATIENCE_MS,
};

/** A server that is stopped, or whose port is held while it restarts, accepts requests and answers none. What only
 * reads is given up then; what changes something is waited for, because it may have been carried out. */
export async function patientFetch(request: Request): Promise<Response> {
  if (request.method !== "GET") return fetch(request);
  const waiting = new AbortController();
  const timer = setTimeout(
    () => waiting.abort(new DOMException("The server does not answer.", "TimeoutError")),
    network.patienceMs(),
  );
  try {
    return await fetch(request, { signal: AbortSignal.any([request.signal, waiting.signal]) });
  } finally {
    clearTimeout(timer);
  }
}

const middleware: Middleware = {
  onResponse({ response, request }) {
    learnServerTime(response.headers.get("date"));
    // A proxy in front answers 502–504 when the server itself is gone.
    if (response.status >= 502 && response.status <= 504) network.onUnreached();
    else network.onReached();
    if (response.status === 401 && !new URL(request.url).pathname.includes("/auth/")) {
      network.onUnauthenticated();
    }
    return undefined;
  },
  onError({ error }) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    network.onUnreached();
    return new ApiError(0, "unreachable", error instanceof Error ? error.message : "unreachable");
  },
};

export const client = createClient<paths>({
  baseUrl: SERVER,
  credentials: "same-origin",
  fetch: patientFetch,
  // ?state=A&state=B, as FastAPI reads lists
  querySerializer: { array: { style: "form", explode: true } },
});
client.use(middleware);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a good answer; ApiError otherwise. */
export async function unwrap<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw toApiError(response.status, error, response.headers.get("x-request-id"));
  return data as T;
}

type Operation<P extends keyof paths> = paths[P] extends { get: infer G extends Record<string | number, unknown> }
  ? G
  : never;
type Fetch<P extends keyof paths, I> = (
  path: P,
  init: I | undefined,
) => Promise<FetchResponse<Operation<P>, I, `${string}/${string}`>>;

/** What a path answers to GET; ApiError otherwise. */
export const get = <
  P extends ClientPathsWithMethod<typeof client, "get">,
  I extends MaybeOptionalInit<paths[P], "get">,
>(
  path: P,
  ...init: undefined extends MaybeOptionalInit<paths[P], "get"> ? [I?] : [I]
) => unwrap((client.GET as unknown as Fetch<P, I>)(path, init[0]));

/** How a list goes on that comes in pages. */
export const byCursor = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page: { next?: string | null }) => page.next ?? undefined,
};

/** The server did not answer, or only a proxy in its place. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || (error.status >= 502 && error.status <= 504));
}
