/** When the workers of a pipeline compute what, by the order of the schedule and mean times. Pure. */

export const DRAWN = ["naive", "gpipe", "1f1b", "interleaved"] as const;
export type DrawnSchedule = (typeof DRAWN)[number];
/** Beyond, boxes are too narrow to be told apart. */
export const MAX_BOXES = 2000;

export interface Box {
  worker: number;
  /** Of the model: a worker of an interleaved pipeline has two. */
  stage: number;
  kind: "forward" | "backward";
  micro: number;
  startMs: number;
  endMs: number;
}

/** Times of one worker for all its micro-batches of a step. */
export interface WorkerTimes {
  forwardMs: number;
  backwardMs: number;
}

export interface Timeline {
  boxes: Box[];
  totalMs: number;
  /** Of the workers' time, in which they compute nothing: 0 to 1. */
  idleShare: number;
}

export const isDrawn = (schedule: string): schedule is DrawnSchedule => (DRAWN as readonly string[]).includes(schedule);

/** What is there to draw: micro-batches per step and the model's stages of each worker. */
export function shapeOf(schedule: DrawnSchedule, workers: number, accumulate: number): { micros: number; stagesPerWorker: number } {
  return { micros: schedule === "naive" ? 1 : workers * accumulate, stagesPerWorker: schedule === "interleaved" ? 2 : 1 };
}

/** null: more boxes than can be told apart, or nothing was measured. */
export function timeline(schedule: DrawnSchedule, times: readonly WorkerTimes[], accumulate: number): Timeline | null {
  const workers = times.length;
  const { micros, stagesPerWorker } = shapeOf(schedule, workers, accumulate);
  if (workers === 0 || workers * micros * stagesPerWorker * 2 > MAX_BOXES) return null;
  const orders = times.map((_, worker) => orderOf(schedule, worker, workers, micros, stagesPerWorker));
  const boxes = played(orders, times, micros, workers, stagesPerWorker);
  const totalMs = Math.max(...boxes.map((box) => box.endMs));
  if (!(totalMs > 0)) return null;
  const busyMs = boxes.reduce((sum, box) => sum + box.endMs - box.startMs, 0);
  return { boxes, totalMs, idleShare: 1 - busyMs / (totalMs * workers) };
}

type Task = Pick<Box, "stage" | "kind" | "micro">;

function orderOf(schedule: DrawnSchedule, worker: number, workers: number, micros: number, stagesPerWorker: number): Task[] {
  if (schedule === "naive" || schedule === "gpipe") {
    const all = Array.from({ length: micros }, (_, micro) => micro);
    return [...all.map((micro): Task => ({ stage: worker, kind: "forward", micro })), ...all.map((micro): Task => ({ stage: worker, kind: "backward", micro }))];
  }
  // One forward, one backward (Narayanan et al. 2021): a worker begins with as many forwards as it takes
  // until the first gradient is back; with several stages it goes round among them.
  const rounds = Math.max(1, Math.floor(micros / workers));
  const perRound = Math.floor(micros / rounds);
  const tasks = micros * stagesPerWorker;
  const ahead = stagesPerWorker === 1 ? workers - 1 - worker : (stagesPerWorker - 1) * perRound + 2 * (workers - 1 - worker);
  const warmup = Math.min(ahead, tasks);
  const next = { forward: new Map<number, number>(), backward: new Map<number, number>() };
  const task = (kind: Box["kind"], local: number): Task => {
    const stage = local * workers + worker;
    const micro = next[kind].get(stage) ?? 0;
    next[kind].set(stage, micro + 1);
    return { stage, kind, micro };
  };
  const forward = (no: number): Task => task("forward", Math.floor(no / perRound) % stagesPerWorker);
  const backward = (no: number): Task => task("backward", stagesPerWorker - 1 - (Math.floor(no / perRound) % stagesPerWorker));
  const order: Task[] = [];
  for (let no = 0; no < warmup; no++) order.push(forward(no));
  for (let no = 0; no < tasks; no++) {
    if (warmup + no < tasks) order.push(forward(warmup + no));
    order.push(backward(no));
  }
  return order;
}

/** Each worker does its tasks one after the other, each when what it needs is there. */
function played(orders: Task[][], times: readonly WorkerTimes[], micros: number, workers: number, stagesPerWorker: number): Box[] {
  const last = workers * stagesPerWorker - 1;
  const ends = new Map<string, number>();
  const key = (kind: Box["kind"], stage: number, micro: number): string => `${kind} ${stage} ${micro}`;
  const neededBy = ({ kind, stage, micro }: Task): string | null => {
    if (kind === "forward") return stage === 0 ? null : key("forward", stage - 1, micro);
    return stage === last ? key("forward", stage, micro) : key("backward", stage + 1, micro);
  };
  const boxes: Box[] = [];
  const lanes = times.map(({ forwardMs, backwardMs }, worker) => ({ worker, forwardMs, backwardMs, order: orders[worker] ?? [], at: 0, freeMs: 0 }));
  for (let moved = true; moved; ) {
    moved = false;
    for (const lane of lanes) {
      for (let task = lane.order[lane.at]; task !== undefined; task = lane.order[lane.at]) {
        const need = neededBy(task);
        const there = need === null ? 0 : ends.get(need);
        if (there === undefined) break;
        const startMs = Math.max(lane.freeMs, there);
        const endMs = startMs + (task.kind === "forward" ? lane.forwardMs : lane.backwardMs) / (micros * stagesPerWorker);
        boxes.push({ ...task, worker: lane.worker, startMs, endMs });
        ends.set(key(task.kind, task.stage, task.micro), endMs);
        lane.freeMs = endMs;
        lane.at += 1;
        moved = true;
      }
    }
  }
  return boxes;
}
