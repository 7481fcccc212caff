/** Affinity: the upstream of each call, by what is cached, by price, by time, and by what answers have shown. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { ChatRequest, Usage } from "../../../src/index.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import type { PrefixMemory } from "../../../src/ports/prefix-memory.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { type CostOf, promptCache, type PromptCacheOptions } from "../../../src/upstreams/affinity/index.ts";
import { route, type RouteBackend, type RouteUpstream } from "../../../src/upstreams/route/index.ts";
import { callContext, chatRequest } from "../relay/stage.ts";

const MINUTE = 60_000;

/** An upstream that says what it has read from its cache, takes a time to answer, and may be out. */
interface Upstream extends RouteUpstream {
  readonly backend: ModelBackend;
  readonly asked: string[];
  isOut: boolean;
  /** The share of the input that each answer says it has read. Undefined: the answer tells nothing. */
  cached: number | undefined;
  takesMs: number;
}

function upstream(name: string, clock: ManualClock, more: Partial<Upstream> = {}): Upstream {
  const one: Upstream = {
    name,
    asked: [],
    isOut: false,
    cached: undefined,
    takesMs: 0,
    backend: {
      async *chat({ messages }) {
        one.asked.push(JSON.stringify(messages[0]?.parts));
        if (one.isOut) throw new GatewayError("backend_unavailable", "Out.");
        if (one.takesMs > 0) await new Promise<void>((resolve) => void clock.after(one.takesMs, resolve));
        const inputTokens = 10_000;
        const usage: Partial<Usage> = {
          inputTokens,
          outputTokens: 10,
          ...(one.cached !== undefined && { cacheReadTokens: inputTokens * one.cached }),
        };
        yield { type: "start", usage };
        yield name;
        yield { type: "finish", reason: "stop", usage };
      },
    },
    ...more,
  };
  return one;
}

const TEXT = "word ".repeat(8_000);

/** A conversation of so many answers; its name makes its first turn its own. */
const conversation = (name: string, answers: number, more: Partial<ChatRequest> = {}): ChatRequest =>
  chatRequest({
    system: [{ type: "text", text: "Be short." }],
    messages: Array.from({ length: 2 * answers + 1 }, (_, at) => ({
      role: at % 2 === 0 ? ("user" as const) : ("assistant" as const),
      parts: [{ type: "text" as const, text: at === 0 ? `${name} ${TEXT}` : `turn ${at}` }],
    })),
    ...more,
  });

class Stage {
  readonly clock: ManualClock = manualClock();
  readonly upstreams: readonly Upstream[];
  readonly backend: RouteBackend;
  #spread = 0;

  constructor(
    names: readonly string[],
    options: PromptCacheOptions = {},
    more: Readonly<Record<string, Partial<Upstream>>> = {},
  ) {
    this.upstreams = names.map((name) => upstream(name, this.clock, more[name]));
    this.backend = route({
      routes: {
        "*": {
          upstreams: this.upstreams.map(({ name = "", weight = 1, backend }) => ({ name, weight, backend })),
          affinity: promptCache(options),
        },
      },
      // The tests have more outages than the usual budget of retries is for.
      retry: { share: 1 },
      clock: this.clock,
      random: () => 0,
    });
  }

  of(name: string): Upstream {
    const found = this.upstreams.find((one) => one.name === name);
    if (!found) throw new Error(`There is no ${name}.`);
    return found;
  }

  /** Asks, and returns the name of the upstream that has answered. */
  async ask(request: ChatRequest, keyId = "key"): Promise<string> {
    const context = callContext();
    const state = { text: "", hasEnded: false };
    const run = async (): Promise<void> => {
      for await (const event of this.backend.chat?.(request, {
        ...context,
        signal: context.signal,
        key: { ...context.key, id: keyId },
      }) ?? [])
        if (typeof event === "string") state.text += event;
    };
    const running = run().finally(() => (state.hasEnded = true));
    running.catch(() => {});
    await this.clock.advance(0);
    while (!state.hasEnded) await this.clock.advance(10);
    await running;
    return state.text;
  }

  /** Asks with many new conversations. Returns the number of each upstream. */
  async spread(count: number, more: Partial<ChatRequest> = {}): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (let at = 0; at < count; at++) {
      const name = await this.ask(conversation(`spread ${this.#spread++}`, 0, more));
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }
}

/** Prices of the input at each upstream; a tenth of it for input from the cache. */
const at =
  (prices: Readonly<Record<string, number>>): CostOf =>
  ({ inputTokens, cacheReadTokens }, _model, _kind, upstream) =>
    (inputTokens - 0.9 * cacheReadTokens) * (prices[upstream?.name ?? ""] ?? Number.NaN);

const keyed = (cacheKey: string): Partial<ChatRequest> => ({
  native: { format: "chat-completions", betas: [], body: { prompt_cache_key: cacheKey } },
});

const marked = (answers: number): ChatRequest =>
  conversation("c", answers, { system: [{ type: "text", text: TEXT, cache: { ttl: "1h" } }] });

/** Returns how many of 30 new conversations go to an upstream that is five seconds slower. */
const slowOf30 = async (secondWorth: number): Promise<number> => {
  const stage = new Stage(["slow", "quick"], { secondWorth });
  stage.of("slow").takesMs = 5_000;
  await stage.spread(10);
  const { slow = 0 } = await stage.spread(30);
  if (secondWorth === 0) return slow;
  // An upstream that was slow hours ago is tried again.
  await stage.clock.advance(4 * 60 * MINUTE);
  expect((await stage.spread(10))["slow"]).toBeGreaterThan(0);
  return slow;
};

const failing =
  (fail: () => number): CostOf =>
  (usage, model, kind, upstream) =>
    upstream?.name === "two" ? fail() : at({ one: 1 })(usage, model, kind, upstream);
const none = () => {
  throw new Error("No price.");
};
const late = () => Promise.reject(new Error("Late.")) as unknown as number;

/** A memory with some of its functions replaced, and the number of its calls. */
const memoryWith = (more: Partial<PrefixMemory>): PrefixMemory & { asked: number } => {
  const memory = {
    asked: 0,
    find: (tenant: string, ids: readonly number[]) => {
      memory.asked++;
      return more.find?.(tenant, ids) ?? [];
    },
    note: more.note ?? (() => {}),
  };
  return memory;
};

describe("a conversation", () => {
  it("stays with the upstream that has its beginning, and others spread", async () => {
    const stage = new Stage(["one", "two", "three"]);
    const firsts: string[] = [];
    for (let at = 0; at < 12; at++) firsts.push(await stage.ask(conversation(`c${at}`, 0)));
    for (let answers = 1; answers < 4; answers++)
      for (const [at, first] of firsts.entries()) expect(await stage.ask(conversation(`c${at}`, answers))).toBe(first);
    expect(new Set(firsts).size).toBe(3);
  });

  it("goes elsewhere in an outage, and stays there afterwards, where its newest turns are", async () => {
    const stage = new Stage(["one", "two"]);
    const first = await stage.ask(conversation("c", 0));
    const other = first === "one" ? "two" : "one";
    stage.of(first).isOut = true;
    const { messages } = conversation("c", 1);
    const longer = [...messages.slice(0, -1), ...conversation("a long turn", 0).messages];
    expect(await stage.ask(conversation("c", 1, { messages: longer }))).toBe(other);
    stage.of(first).isOut = false;
    expect(await stage.ask(conversation("c", 2, { messages: [...longer, ...messages.slice(1)] }))).toBe(other);
  });

  it("is not held at an upstream whose circuit breaker is open", async () => {
    const stage = new Stage(["one", "two"]);
    const first = await stage.ask(conversation("c", 0));
    stage.of(first).isOut = true;
    for (let answers = 1; answers < 8; answers++) await stage.ask(conversation(`c`, answers));
    for (let at = 0; at < 12; at++) await stage.ask(conversation(`other ${at}`, 0));
    const asked = stage.of(first).asked.length;
    expect(stage.backend.status().find(({ upstream }) => upstream === first)?.state).toBe("open");
    await stage.ask(conversation("c", 9));
    expect(stage.of(first).asked).toHaveLength(asked);
  });

  it("leaves upstreams of weight 0 for the last, even where its beginning is cached", async () => {
    const stage = new Stage(["one", "spare"], {}, { spare: { weight: 0 } });
    stage.of("one").isOut = true;
    expect(await stage.ask(conversation("c", 0))).toBe("spare");
    stage.of("one").isOut = false;
    expect(await stage.ask(conversation("c", 1))).toBe("one");
  });

  it("of one key tells nothing of the conversations of another", async () => {
    const price = at({ one: 10, two: 11 });
    const stage = new Stage(["one", "two"], { price });
    stage.of("one").isOut = true;
    expect(await stage.ask(conversation("c", 0), "first")).toBe("two");
    stage.of("one").isOut = false;
    // The same prompt costs less at "two", where it is cached. Only the key that has sent it may tell.
    expect(await stage.ask(conversation("c", 1), "second")).toBe("one");
    expect(await stage.ask(conversation("c", 1), "first")).toBe("two");
  });

  it("shares its prefixes with the other keys of its tenant", async () => {
    const price = at({ one: 10, two: 11 });
    const stage = new Stage(["one", "two"], { price, tenantOf: () => "team" });
    stage.of("one").isOut = true;
    await stage.ask(conversation("c", 0), "first");
    stage.of("one").isOut = false;
    expect(await stage.ask(conversation("c", 1), "second")).toBe("two");
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("No.");
      },
    ],
    ["returns no text", () => 7 as unknown as string],
  ])("belongs to its key where tenantOf %s", async (_name, tenantOf) => {
    const stage = new Stage(["one", "two"], { tenantOf });
    const first = await stage.ask(conversation("c", 0));
    expect(await stage.ask(conversation("c", 1))).toBe(first);
  });

  it("goes where its cache key leads, whatever its first turn", async () => {
    const stage = new Stage(["one", "two", "three"]);
    const groups = new Set<string>();
    for (let key = 0; key < 20; key++) {
      const counts = await stage.spread(3, keyed(`key ${key}`));
      expect(Object.values(counts)).toEqual([3]);
      groups.add(Object.keys(counts).join());
    }
    expect(groups.size).toBe(3);
    const content = await stage.spread(6, { cachedContent: "cachedContents/1" });
    expect(Object.values(content)).toEqual([6]);
  });
});

describe("where nothing is known", () => {
  it("processes agree", async () => {
    const [one, two] = [new Stage(["one", "two", "three"]), new Stage(["one", "two", "three"])];
    for (let at = 0; at < 30; at++)
      expect(await one.ask(conversation(`c${at}`, 0))).toBe(await two.ask(conversation(`c${at}`, 3)));
  });

  it("an upstream that is added moves only its own share", async () => {
    const [few, many] = [new Stage(["one", "two", "three"]), new Stage(["one", "two", "three", "four"])];
    let moved = 0;
    for (let at = 0; at < 200; at++) {
      const [before, after] = [await few.ask(conversation(`c${at}`, 0)), await many.ask(conversation(`c${at}`, 0))];
      if (before === after) continue;
      expect(after).toBe("four");
      moved++;
    }
    expect(moved).toBeGreaterThan(25);
    expect(moved).toBeLessThan(80);
  });

  it("the shares follow the weights", async () => {
    const stage = new Stage(["one", "three"], {}, { three: { weight: 3 } });
    const { one = 0, three = 0 } = await stage.spread(400);
    expect(three / one).toBeGreaterThan(2);
    expect(three / one).toBeLessThan(4.5);
  });

  it("other kinds of requests are drawn by weight", async () => {
    const drawn: string[] = [];
    const embed = (name: string): ModelBackend => ({
      async *embed() {
        drawn.push(name);
        yield { type: "vector", vector: new Float32Array(1) } as never;
      },
    });
    let point = 0;
    const backend = route({
      routes: { "*": { upstreams: [embed("one"), embed("two")], affinity: promptCache() } },
      random: () => point,
    });
    for (point of [0, 0.9, 0])
      for await (const _ of backend.embed?.({ model: "m", inputs: ["a"] }, callContext()) ?? []);
    expect(drawn).toEqual(["one", "two", "one"]);
  });
});

describe("the cost decides", () => {
  it("between upstreams of different prices", async () => {
    const stage = new Stage(["dear", "cheap"], { price: at({ dear: 3, cheap: 2 }) });
    expect(await stage.spread(12)).toEqual({ cheap: 12 });
  });

  it("and what is cached is cheap", async () => {
    const stage = new Stage(["dear", "cheap"], { price: at({ dear: 2.5, cheap: 2 }) });
    stage.of("cheap").isOut = true;
    await stage.ask(conversation("c", 0));
    stage.of("cheap").isOut = false;
    expect(await stage.ask(conversation("c", 1))).toBe("dear");
    await stage.clock.advance(30 * MINUTE);
    expect(await stage.ask(conversation("c", 2))).toBe("cheap");
  });

  it("with the lifetime that a mark of the caller names", async () => {
    const stage = new Stage(["dear", "cheap"], { price: at({ dear: 2.5, cheap: 2 }) });
    stage.of("cheap").isOut = true;
    await stage.ask(marked(0));
    stage.of("cheap").isOut = false;
    await stage.clock.advance(30 * MINUTE);
    expect(await stage.ask(marked(1))).toBe("dear");
  });

  it("with the lifetime and the smallest size of each upstream", async () => {
    const price = at({ dear: 2.5, cheap: 2 });
    const isKept = async (options: PromptCacheOptions, waitMs: number): Promise<boolean> => {
      const stage = new Stage(["dear", "cheap"], { price, ...options });
      stage.of("cheap").isOut = true;
      await stage.ask(conversation("c", 0));
      stage.of("cheap").isOut = false;
      await stage.clock.advance(waitMs);
      return (await stage.ask(conversation("c", 1))) === "dear";
    };
    expect(await isKept({ upstreams: { dear: { lifetimeMs: 60 * MINUTE } } }, 30 * MINUTE)).toBe(true);
    expect(await isKept({ upstreams: { cheap: { lifetimeMs: 60 * MINUTE } } }, 30 * MINUTE)).toBe(false);
    expect(await isKept({ minTokens: 9_000 }, 0)).toBe(true);
    expect(await isKept({ minTokens: 11_000 }, 0)).toBe(false);
  });

  it("with the chance that answers have shown", async () => {
    const stage = new Stage(["dear", "cheap"], { price: at({ dear: 2.1, cheap: 2 }) });
    const keeps = async (name: string): Promise<boolean> => {
      stage.of("cheap").isOut = true;
      await stage.ask(conversation(name, 0));
      stage.of("cheap").isOut = false;
      return (await stage.ask(conversation(name, 1))) === "dear";
    };
    stage.of("dear").cached = 0;
    stage.of("cheap").cached = 0;
    expect(await keeps("first")).toBe(true);
    // Answers that tell no cached tokens show nothing, until one of the upstream has told some.
    for (let at = 0; at < 10; at++) await keeps(`c${at}`);
    expect(await keeps("last")).toBe(false);
    stage.of("dear").cached = 0.95;
    // After hours, what was learned is forgotten, and tried again.
    await stage.clock.advance(12 * 60 * MINUTE);
    expect(await keeps("later")).toBe(true);
  });

  it("with what is not told taken as nothing only where something was told before", async () => {
    const prices = at({ dear: 2.1, cheap: 2 });
    const after = async (first: number | undefined): Promise<string> => {
      const stage = new Stage(["dear", "cheap"], { price: prices });
      const dear = stage.of("dear");
      for (let turn = 0; turn < 14; turn++) {
        dear.cached = turn === 0 ? first : undefined;
        stage.of("cheap").isOut = true;
        await stage.ask(conversation("c", turn));
        stage.of("cheap").isOut = false;
        await stage.clock.advance(30_000);
      }
      return stage.ask(conversation("c", 14));
    };
    expect(await after(undefined)).toBe("dear");
    expect(await after(0.5)).toBe("cheap");
  });

  it("with the time until the first event", async () => {
    expect(await slowOf30(0.02)).toBe(0);
    expect(await slowOf30(0)).toBeGreaterThan(5);
  });

  it("and a price that fails counts as the highest", async () => {
    for (const fail of [none, () => Number.NaN, () => -1, late])
      expect(await new Stage(["one", "two"], { price: failing(fail) }).spread(6)).toEqual({ one: 6 });
    const all = new Stage(["one", "two"], { price: none });
    const first = await all.ask(conversation("c", 0));
    expect(await all.ask(conversation("c", 1))).toBe(first);
  });
});

describe("a memory of the host", () => {
  it.each<[string, Partial<PrefixMemory>]>([
    [
      "throws",
      {
        find: () => {
          throw new Error("Down.");
        },
      },
    ],
    ["rejects", { find: () => Promise.reject(new Error("Down.")), note: () => Promise.reject(new Error("Down.")) }],
    ["never answers", { find: () => new Promise(() => {}), note: () => new Promise(() => {}) }],
    ["lies", { find: () => [[{ upstream: "two", ageMs: Number.NaN, lifetimeMs: -1 }], "no", null, [null]] as never }],
    [
      "returns nothing",
      {
        find: () => undefined as never,
        note: () => {
          throw new Error("Full.");
        },
      },
    ],
    ["names strangers", { find: (_tenant, ids) => ids.map(() => [{ upstream: "stranger", ageMs: 1, lifetimeMs: 1 }]) }],
  ])("that %s costs no call", async (_name, more) => {
    const [stage, plain] = [new Stage(["one", "two"], { memory: memoryWith(more) }), new Stage(["one", "two"])];
    for (let at = 0; at < 12; at++)
      expect(await stage.ask(conversation(`c${at}`, 0))).toBe(await plain.ask(conversation(`c${at}`, 0)));
  });

  it("that never answers is waited for no longer than its time, and rests after five calls", async () => {
    const memory = memoryWith({ find: () => new Promise(() => {}) });
    const stage = new Stage(["one", "two"], { memory, memoryTimeoutMs: 20 });
    const begin = stage.clock.now();
    for (let at = 0; at < 20; at++) await stage.ask(conversation(`c${at}`, 0));
    expect(stage.clock.now() - begin).toBe(100);
    expect(memory.asked).toBe(5);
    expect(stage.clock.pending).toBe(0);
    await stage.clock.advance(MINUTE);
    await stage.ask(conversation("later", 0));
    expect(memory.asked).toBe(6);
  });

  it("carries a conversation from process to process", async () => {
    const noted = new Map<number, string>();
    const memory: PrefixMemory = {
      async find(_tenant, ids) {
        return ids.map((id) => {
          const upstream = noted.get(id);
          return upstream === undefined ? [] : [{ upstream, ageMs: 0, lifetimeMs: MINUTE }];
        });
      },
      async note(_tenant, upstream, prefixes) {
        for (const { id } of prefixes) noted.set(id, upstream);
      },
    };
    const [one, two] = [new Stage(["one", "two"], { memory }), new Stage(["one", "two"], { memory })];
    const home = await new Stage(["one", "two"]).ask(conversation("c", 0));
    one.of(home).isOut = true;
    const first = await one.ask(conversation("c", 0));
    expect(first).not.toBe(home);
    expect(await two.ask(conversation("c", 1))).toBe(first);
  });
});

describe("a wrong option", () => {
  const upstreams = [{ chat: async function* () {} }, { chat: async function* () {} }];

  it.each<[string, object, string]>([
    ["an unknown one", { lifetime: 1 }, "lifetime does not exist"],
    ["a negative worth", { secondWorth: -1 }, "secondWorth"],
    ["a memory without note", { memory: { find: () => [] } }, "memory must be a PrefixMemory"],
    ["a fact of an upstream", { upstreams: { 0: { minToken: 1 } } }, "minToken does not exist"],
    ["a lifetime of 0", { lifetimeMs: 0 }, "lifetimeMs"],
  ])("%s is refused by name", (_name, options, message) => {
    expect(() => promptCache(options)).toThrow(message);
  });

  it("an upstream that the route does not have is refused by name", () => {
    const affinity = promptCache({ upstreams: { main: { lifetimeMs: 1_000 } } });
    expect(() =>
      route({
        routes: { "*": { upstreams: [{ backend: upstreams[0] ?? {}, name: "mains" }, ...upstreams], affinity } },
      }),
    ).toThrow("promptCache: upstreams.main does not exist; did you mean mains?");
  });

  it("a word in place of an affinity is refused by name", () => {
    const routes = { "*": { upstreams, affinity: "prompt-cache" as never } };
    expect(() => route({ routes })).toThrow("affinity must be an affinity, such as promptCache()");
  });
});
