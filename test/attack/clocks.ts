/** Attacks by clocks: they jump forwards and backwards, by seconds and by years, in the middle of calls. Timers are not affected. */

import { type Clock, memoryImageStore, type ModelBackend } from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/laws/manual-clock.ts";
import type { Random } from "../trial/random.ts";
import type { Attack, Run } from "./frame.ts";
import { type Answered, judge, keyed, METERED, RICH, type Sent, Stage, answering } from "./stage.ts";

export const clocks: Attack = {
  name: "clocks",
  does: "Moves the clock by seconds and by years during calls, while stores hang",
  counts: { full: 10_000, short: 50 },
  open: (run) => ({ isMeasured: true, attempt: (random, index) => attempt(run, random, index) }),
};

const SECOND = 1_000;
const DAY = 86_400 * SECOND;
const JUMPS: [number, ...number[]] = [
  SECOND,
  10 * SECOND,
  61 * SECOND,
  3_600 * SECOND,
  DAY,
  30 * DAY,
  3_650 * DAY,
  0.5,
];

/** A clock whose time jumps while its timers run on. */
class JumpingClock implements Clock {
  #offset = 0;
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now() + this.#offset;
  }

  after(ms: number, callback: () => void): () => void {
    return this.#clock.after(ms, callback);
  }

  every(ms: number, callback: () => void): () => void {
    return this.#clock.every(ms, callback);
  }

  jump(ms: number): void {
    // No clock is before 1970.
    this.#offset = Math.max(this.#offset + ms, -this.#clock.now());
  }
}

async function attempt(run: Run, random: Random, index: number): Promise<void> {
  let jumping: JumpingClock | undefined;
  const jump = (): void => jumping?.jump(random.pick(JUMPS) * random.pick([1, -1]));
  const hangs = new Set(random.chance(0.5) ? [random.pick(["find", "reserve", "settle", "renew"])] : []);
  const hanging = <Result>(verb: string, work: () => Promise<Result>): Promise<Result> =>
    hangs.has(verb) ? new Promise(() => {}) : work();
  const stage = new Stage({
    backend: jumpy(jump, random),
    clockAround: (clock) => (jumping = new JumpingClock(clock)),
    onClock: (clock) => ({ images: { store: memoryImageStore({ clock: new JumpingClock(clock) }) } }),
    around: (store) => ({
      find: (apiKey) => hanging("find", () => store.find(apiKey)),
      reserve: (hold) => hanging("reserve", () => store.reserve(hold)),
      renew: (id, renewal) => hanging("renew", () => store.renew(id, renewal)),
      settle: (id, outcome) => hanging("settle", () => store.settle(id, outcome)),
    }),
  });
  for (let call = random.int(1, 7); call > 0; call--) {
    if (random.chance(0.6)) jump();
    judgeOnTime(run, await stage.asking(run, requestBy(random, index), random.pick([50, 1_000, 5_000])));
  }
  // After a while of the timers, the gateway must work again, whatever time the clock has told meanwhile.
  hangs.clear();
  jump();
  await stage.clock.advance(RECOVERY_MS);
  const answered = await stage.asking(run, {
    path: "/v1/messages",
    headers: headersOf(RICH),
    body: JSON.stringify(MESSAGE),
  });
  run.check(
    answered?.status === 200,
    "No call is served any more after the clock has jumped",
    `${answered?.status} ${answered?.text}`,
  );
  await stage.clock.advance(RECOVERY_MS);
  await stage.assertAtRest(run);
  for (const { endMs, firstEventMs = 0 } of stage.records)
    run.check(endMs >= 0 && firstEventMs >= 0, "A record tells of less than no time", `${endMs} ${firstEventMs}`);
}

/** Longer than any circuit breaker stays open, and than any pause between settlements. */
const RECOVERY_MS = 600_000;

function judgeOnTime(run: Run, answered: Answered | undefined): void {
  if (!answered) return;
  judge(run, answered, "");
  const after = Number(answered.headers.get("retry-after") ?? 0);
  run.check(
    after >= 0 && after <= 3_600,
    "A caller is told to come back in no reasonable time",
    `${after} s ${answered.text}`,
  );
}

/** Makes a backend during whose answers the clock jumps. */
const jumpy = (jump: () => void, random: Random): ModelBackend => ({
  ...answering,
  async *chat() {
    for (let word = 0; word < 4; word++) {
      if (random.chance(0.4)) jump();
      yield "word ";
    }
    yield { type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 4 } };
  },
});

const MESSAGE = { model: "model-a", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
const headersOf = (apiKey: string): Record<string, string> => ({
  ...keyed(apiKey),
  "content-type": "application/json",
});

function requestBy(random: Random, index: number): Sent {
  const headers = headersOf(random.pick([RICH, METERED]));
  if (random.chance(0.4)) headers["idempotency-key"] = `once ${index}`;
  const [path, body] = random.pick<[string, object]>([
    ["/v1/messages", { ...MESSAGE, stream: random.chance(0.5) }],
    ["/v1/images/generations", { prompt: "A hat", response_format: "url" }],
  ]);
  return { path, headers, body: JSON.stringify(body) };
}
