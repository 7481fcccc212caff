/**
 * A kind of generation that the package does not have, from this file alone: it is served over an endpoint of its own, authenticated, priced,
 * reserved, metered, settled, recorded, shown to hooks and observers, and routed.
 */

import { describe, expect, it } from "vitest";
import { createGateway, GatewayError, withHooks } from "../../src/core.ts";
import type { EndpointOf } from "../../src/formats/format.ts";
import type { GatewayFormat } from "../../src/formats/module.ts";
import { openaiEndpoint } from "../../src/formats/shared/errors.ts";
import { readMultipart } from "../../src/http/form.ts";
import {
  type BegunCall,
  type CallContext,
  type CallRecord,
  DEFAULT_LIMITS,
  type HookAnswer,
  memoryQuotaStore,
  type ModelBackend,
  type ModelKind,
} from "../../src/index.ts";
import type { KindModule } from "../../src/kinds/kind.ts";
import type { Meter } from "../../src/kinds/meter.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { VERB_OF } from "../../src/ports/model-backend.ts";
import { routeOver } from "../../src/upstreams/route/table.ts";

const NAME: string = "moderation";
// The kinds of the package are a union of words, and this word is none of them.
const name = NAME as ModelKind;

interface ModerationRequest {
  readonly model: string;
  readonly texts: readonly string[];
}

type ModerationEvent = { readonly type: "verdict"; readonly flagged: boolean };
type ModerationAnswer =
  | { readonly type: "start" }
  | { readonly type: "verdict"; readonly flagged: boolean; readonly index: number }
  | { readonly type: "finish"; readonly words: number };

interface Moderator extends ModelBackend {
  moderate?(request: ModerationRequest, call: CallContext): AsyncIterable<ModerationEvent>;
}

/** The price of a word, in units. */
const PRICE = 3;

const wordsOf = (text: string): number => text.split(" ").length;
const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** Charges the words of each text that has its verdict. */
const meterOf = ({ texts }: ModerationRequest): Meter<ModerationEvent, ModerationAnswer> => {
  let verdicts = 0;
  const words = (): number => sum(texts.slice(0, verdicts).map(wordsOf));
  return {
    overrun: false,
    certainty: "exact",
    start: () => ({ type: "start" }),
    observe: ({ flagged }) => ({ type: "verdict", flagged, index: verdicts++ }),
    complete() {
      if (verdicts < texts.length)
        throw new GatewayError("backend_failed", "The model backend yielded too few verdicts.");
    },
    finish: () => ({ type: "finish", words: words() }),
    assertPrice: () => {},
    get units() {
      return PRICE * words();
    },
    get report() {
      return { usage: { ...NO_USAGE, inputTokens: words() }, tokens: words() };
    },
  };
};

const moderation: KindModule<{ readonly strict: boolean }, ModerationRequest, ModerationEvent, ModerationAnswer> = {
  name,
  verb: "moderate",
  isPricedByUpstream: () => false,
  cost(_call, { texts }) {
    const inputTokens = sum(texts.map(wordsOf));
    return { atLeast: PRICE * inputTokens, atMost: PRICE * inputTokens, inputTokens, maxOutputTokens: 0 };
  },
  ask: (backend: Moderator, request, context) => backend.moderate?.(request, context),
  generation: (_call, _endpoint, request) => ({ meter: meterOf(request) }),
};

const endpoint: EndpointOf<typeof moderation> = {
  ...openaiEndpoint,
  format: "moderations",
  kind: moderation,
  strict: true,
  method: "POST",
  path: "/v1/moderations",
  decode(body) {
    const { model, input } = body as { readonly model: string; readonly input: readonly string[] };
    return { model, texts: input };
  },
  complete({ request: { model } }) {
    const results: boolean[] = [];
    let words = 0;
    return {
      add(event) {
        if (event.type === "verdict") results[event.index] = event.flagged;
        if (event.type === "finish") words = event.words;
      },
      body: () => ({ model, results, words }),
    };
  },
};

const ofForms: EndpointOf<typeof moderation> = {
  ...endpoint,
  path: "/v1/moderations/forms",
  readForm: (request, intake) =>
    readMultipart(request, { limits: DEFAULT_LIMITS, maxFileBytes: () => undefined }, intake),
  decode(form) {
    const { fields } = form as Awaited<ReturnType<typeof readMultipart>>;
    return { model: fields.get("model")?.[0] ?? "", texts: fields.get("input") ?? [] };
  },
};

const moderations: GatewayFormat = {
  name: "moderations",
  options: {},
  make: () => ({ name: "moderations", telemetry: { provider: "made-up" }, endpoints: [endpoint, ofForms] }),
};

const moderator = (asked: ModerationRequest[] = []): Moderator => ({
  async *moderate(request) {
    asked.push(request);
    for (const text of request.texts) yield { type: "verdict", flagged: text.includes("knife") };
  },
});

const listing = (kinds: readonly ModelKind[]): Moderator => ({
  ...moderator(),
  models: () => [{ id: "guard", kinds }],
});

const TEXTS = ["a red hat", "the knife"];

const post = (body: BodyInit, { path = "/v1/moderations", apiKey = "sk-1" } = {}): Request =>
  new Request(`http://localhost${path}`, { method: "POST", headers: { authorization: `Bearer ${apiKey}` }, body });

const asJson = (input: readonly string[] = TEXTS): Blob =>
  new Blob([JSON.stringify({ model: "guard", input })], { type: "application/json" });

function opened({ backend = moderator(), granted = 100, hooks = [], observer }: Opening = {}) {
  const records: CallRecord[] = [];
  const quotas = memoryQuotaStore([{ apiKey: "sk-1", granted }]);
  const gateway = createGateway({
    backend,
    quotas,
    hooks,
    formats: [moderations],
    features: [withHooks],
    onCall: (record) => records.push(record),
    onFailure: () => {},
    ...(observer && { observer }),
  });
  const balance = async () => quotas.balance((await quotas.find("1"))?.id ?? "");
  return { ...gateway, records, balance };
}

type Opening = { readonly backend?: Moderator; readonly granted?: number } & Partial<
  Pick<Parameters<typeof createGateway>[0], "hooks" | "observer">
>;

describe("a made-up kind", () => {
  it("is served, charged by its own price, and recorded", async () => {
    const { fetch, endpoints, records, balance } = opened();
    expect(endpoints.map(({ kind, path }) => `${kind} ${path}`)).toEqual([
      `${NAME} /v1/moderations`,
      `${NAME} /v1/moderations/forms`,
    ]);
    const answer = await fetch(post(asJson()));
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ model: "guard", results: [false, true], words: 5 });
    expect(records).toMatchObject([
      { format: "moderations", modelAsked: "guard", units: 15, certainty: "exact", outcome: "completed" },
    ]);
    expect(records[0]?.usage).toMatchObject({ inputTokens: 5 });
    expect(await balance()).toMatchObject({ available: 85, used: 15 });
  });

  it("reads forms, where its endpoint does", async () => {
    const { fetch } = opened();
    const form = new FormData();
    form.append("model", "guard");
    for (const text of TEXTS) form.append("input", text);
    const answer = await fetch(post(form, { path: "/v1/moderations/forms" }));
    expect(await answer.json()).toEqual({ model: "guard", results: [false, true], words: 5 });
  });

  it("is for known keys that can pay the whole price", async () => {
    const asked: ModerationRequest[] = [];
    const { fetch, balance } = opened({ backend: moderator(asked), granted: 14 });
    expect((await fetch(post(asJson(), { apiKey: "sk-2" }))).status).toBe(401);
    expect((await fetch(post(asJson()))).status).toBe(429);
    expect(asked).toEqual([]);
    expect(await balance()).toMatchObject({ available: 14, held: 0 });
    expect((await fetch(post(asJson(["a", "b"])))).status).toBe(200);
    expect(await balance()).toMatchObject({ available: 8, held: 0 });
  });

  it("is charged for the part that came, when its backend breaks off", async () => {
    const backend: Moderator = {
      async *moderate() {
        yield { type: "verdict", flagged: false };
      },
    };
    const { fetch, balance, records } = opened({ backend });
    expect((await fetch(post(asJson()))).status).toBe(500);
    expect(records).toMatchObject([{ outcome: "failed", units: 9 }]);
    expect(await balance()).toMatchObject({ used: 9 });
  });

  it("has its models by its name", async () => {
    expect((await opened({ backend: listing([name]) }).fetch(post(asJson()))).status).toBe(200);
    expect((await opened({ backend: listing(["chat"]) }).fetch(post(asJson()))).status).toBe(404);
  });

  it("is shown to hooks, which may change the request, and to observers", async () => {
    const asked: ModerationRequest[] = [];
    const seen: unknown[] = [];
    const answers: HookAnswer[] = [];
    const begun: BegunCall[] = [];
    const { fetch, close } = opened({
      backend: moderator(asked),
      hooks: [
        {
          before(request, { kind }) {
            seen.push(kind, request);
            return Object.assign({ ...request }, { texts: ["the knife"] });
          },
          after: (answer) => answers.push(answer),
        },
      ],
      observer: { begin: (call) => void begun.push(call) },
    });
    expect(await (await fetch(post(asJson()))).json()).toEqual({ model: "guard", results: [true], words: 2 });
    await close();
    expect(seen).toEqual([NAME, { model: "guard", texts: TEXTS }]);
    expect(asked).toEqual([{ model: "guard", texts: ["the knife"] }]);
    expect(answers).toMatchObject([{ text: "", toolCalls: [], record: { units: 6 } }]);
    expect(begun.map(({ kind }) => kind)).toEqual([NAME]);
  });

  it("is routed: to the upstream's own model, and on to the next one after a failure", async () => {
    const asked: ModerationRequest[] = [];
    const failing: Moderator = {
      // oxlint-disable-next-line require-yield
      async *moderate() {
        throw new GatewayError("backend_unavailable", "The model backend is not available.");
      },
    };
    const upstreams = [
      { backend: failing, name: "first" },
      { backend: moderator(asked), name: "second", model: "guard-9", weight: 0 },
      { backend: { async *chat() {} }, name: "third" },
    ];
    const routed = routeOver({ routes: { guard: { upstreams } } }, { ...VERB_OF, [NAME]: moderation.verb });
    expect(routed.upstreamsOf("guard", name).map(({ model }) => model)).toEqual(["guard", "guard-9"]);
    const { fetch, records } = opened({ backend: routed });
    expect((await fetch(post(asJson()))).status).toBe(200);
    expect(asked).toEqual([{ model: "guard-9", texts: TEXTS }]);
    expect(records[0]?.attempts.map(({ upstream, movedOn }) => [upstream, movedOn])).toEqual([
      ["first", "failed"],
      ["second", undefined],
    ]);
  });

  it("has no route where the backend lacks its function, and is no backend without one", async () => {
    const { endpoints, handle } = opened({ backend: { async *chat() {} } });
    expect(endpoints).toEqual([]);
    expect(handle(post(asJson()))).toBeUndefined();
    expect(() => opened({ backend: {} })).toThrow("has no chat() or image() or embed() or moderate()");
  });
});
