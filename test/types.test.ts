/** The public types, as a host meets them. The compiler checks what `expectTypeOf` says; running it checks the rest. */

import { createServer, type RequestListener } from "node:http";
import Koa from "koa";
import mount from "koa-mount";
import { describe, expect, expectTypeOf, it } from "vitest";
import { toKoaMiddleware } from "../adapters/koa.ts";
import { type NodeHandler, toNodeHandler } from "../adapters/node.ts";
import {
  type CallRecord,
  type ChatEvent,
  createGateway,
  type Gateway,
  GatewayError,
  type GatewayErrorCode,
  type GatewayOptions,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
} from "../src/index.ts";
import type { CallRecorder, OpenedStores } from "../src/stores/open/index.ts";
import { sqlCallLog } from "../src/stores/sql/index.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../src/telemetry/index.ts";

const backend = {
  async *chat() {
    yield "hi";
  },
};

type RequiredKeys<T> = { [Key in keyof T]-?: object extends Pick<T, Key> ? never : Key }[keyof T];

describe("a host", () => {
  it("writes a backend in five lines", async () => {
    expectTypeOf(backend).toExtend<ModelBackend>();
    expect(await backend.chat().next()).toEqual({ done: false, value: "hi" });
  });

  it("may leave out every part of a backend, but add nothing that is none", () => {
    expectTypeOf<RequiredKeys<ModelBackend>>().toEqualTypeOf<never>();
    expectTypeOf<{ chat: () => Promise<string> }>().not.toExtend<ModelBackend>();
    expectTypeOf<{ chat: () => AsyncGenerator<number> }>().not.toExtend<ModelBackend>();
  });

  it("owes createGateway a backend and the quotas, and nothing else", () => {
    expectTypeOf(createGateway).parameters.toEqualTypeOf<[options: GatewayOptions]>();
    expectTypeOf<RequiredKeys<GatewayOptions>>().toEqualTypeOf<"backend" | "quotas">();
    expectTypeOf(memoryQuotaStore).returns.toExtend<QuotaStore>();
    expect(createGateway({ backend, quotas: memoryQuotaStore() })).toHaveProperty("fetch");
  });

  it("hands the mounted gateway to http.createServer", () => {
    expectTypeOf<NodeHandler>().toExtend<RequestListener>();
    const gateway = createGateway({ backend, quotas: memoryQuotaStore() });
    expect(createServer(toNodeHandler(gateway)).listenerCount("request")).toBe(1);
  });
});

describe("a context of the host's own", () => {
  interface Caller {
    readonly userId: string;
  }

  it("is typed in the functions that name the group of a call", () => {
    const named = { groupOf: ({ context }: CallRecord<Caller>) => context?.userId };
    const make = (stores: OpenedStores): Gateway<Caller> =>
      createGateway<Caller>({
        backend,
        quotas: memoryQuotaStore(),
        onCall: stores.recorder({ groupOf: ({ context }) => context?.userId }),
        observer: openTelemetry({
          groupOf: ({ context }) => context?.userId,
          spanAttributes: ({ context }) => ({ user: context?.userId }),
        }),
      });
    expectTypeOf(make).returns.toEqualTypeOf<Gateway<Caller>>();
    expectTypeOf<OpenedStores["recorder"]>().toBeCallableWith(named);
    expectTypeOf(openTelemetry<Caller>)
      .parameter(0)
      .toEqualTypeOf<OpenTelemetryOptions<Caller> | undefined>();
    expectTypeOf(sqlCallLog<Caller>)
      .returns.toHaveProperty("onCall")
      .toEqualTypeOf<CallRecorder<Caller>>();
    // @ts-expect-error: the context has no such entry.
    openTelemetry<Caller>({ groupOf: ({ context }) => context?.team });
    expect(openTelemetry<Caller>(named)).toHaveProperty("begin");
  });
});

describe("GatewayError", () => {
  it("has a closed list of codes", () => {
    expectTypeOf<"teapot">().not.toExtend<GatewayErrorCode>();
    expectTypeOf<string>().not.toExtend<GatewayErrorCode>();
    expectTypeOf<ConstructorParameters<typeof GatewayError>[0]>().toEqualTypeOf<GatewayErrorCode>();
    expect(new GatewayError("rate_limited", "Busy.").code).toBe("rate_limited" satisfies GatewayErrorCode);
  });
});

function textOf(event: ChatEvent): string {
  switch (event.type) {
    case "text-delta":
    case "reasoning-delta":
      return event.text;
    case "reasoning-signature":
      return event.signature;
    case "redacted-reasoning":
      return event.data;
    case "tool-call":
    case "tool-call-start":
      return event.name;
    case "tool-call-delta":
      return event.json;
    case "tool-call-end":
      return event.id;
    case "code":
      return event.code;
    case "code-result":
      return event.outcome;
    case "media":
      return event.mediaType;
    case "refusal-delta":
      return event.text;
    case "provider":
    case "native":
      return event.format;
    case "annotation":
      return event.annotation.type;
    case "prompt-feedback":
      return event.blockReason ?? "";
    case "start":
    case "usage":
      return "";
    case "finish":
      return event.reason;
    default:
      return event satisfies never;
  }
}

describe("ChatEvent", () => {
  it("lets a switch be exhaustive", () => {
    expect(textOf({ type: "text-delta", text: "hi" })).toBe("hi");
    expect(textOf({ type: "finish", reason: "stop" })).toBe("stop");
  });
});

const open = <Context>(): Gateway<Context> =>
  createGateway<Context>({ backend: { chat: async function* () {} }, quotas: memoryQuotaStore([]) });

describe("Koa's own types", () => {
  interface User {
    readonly name: string;
  }
  interface State {
    user: User;
  }

  it("fit a context's parameter: named, inferred, or given as an argument", () => {
    const named = toKoaMiddleware(open(), { context: (context: Koa.Context): unknown => context.state["user"] });
    const inferred = toKoaMiddleware(open(), { context: (context) => context.state["user"] });
    const given = toKoaMiddleware<unknown, Koa.Context>(open(), { context: ({ ip }) => ip });
    const app = new Koa().use(named).use(inferred).use(given).use(mount("/ai", named));
    expect(app.middleware).toHaveLength(4);
  });

  it("fit a state and a context of the app's own", () => {
    type Context = Koa.ParameterizedContext<State, { readonly tenant: string }>;
    const middleware = toKoaMiddleware(open<User>(), { context: ({ state }: Context) => state.user });
    const app = new Koa<State, { readonly tenant: string }>().use(middleware).use(toKoaMiddleware(open()));
    expect(app.middleware).toHaveLength(2);
  });

  it("keep a context to what the gateway knows", () => {
    // @ts-expect-error: the gateway's context is a user, and a state's value may be anything.
    const wrong = toKoaMiddleware(open<User>(), { context: (context) => context.state["user"] });
    const right = toKoaMiddleware(open<User>(), { context: (context) => context.state["user"] as User });
    expectTypeOf(wrong).toEqualTypeOf(right);
    // @ts-expect-error: a string is no context of Koa's.
    toKoaMiddleware(open(), { context: (context: string) => context });
  });
});
