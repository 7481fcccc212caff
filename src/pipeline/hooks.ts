/** Runs the host's hooks: `before` on the way to the backend, `during` on the way back, `after` behind the end of the call. */

import { GatewayError } from "../errors.ts";
import type { ContentCollector, HookContent, KindModule } from "../kinds/kind.ts";
import type { Limits } from "../limits.ts";
import type { ChatRequest } from "../model/chat-request.ts";
import { JsonBudget, type JsonLimits } from "../model/json.ts";
import { assertOptions, shown } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import { type Clock, LATE, within } from "../ports/clock.ts";
import type { Hook, HookAnswer, HookCall, HookRequest } from "../ports/hook.ts";
import type { CallRecord, OnFailure } from "../ports/observer.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import {
  type AnswerEvents,
  type CallWithOutput,
  DEFAULT_TIMEOUT_MS,
  type EndableEvents,
  type HookedOutput,
  hookFailed,
  type OutputCode,
  wrongReturn,
} from "./output.ts";
import { report, reporterOf } from "./reports.ts";

/** Reports what a function has thrown, with its name. */
type Fail = ReturnType<typeof reporterOf>;

/** The memory of an answer beside its texts, in bytes: its record, and what waits for its hooks. */
const ANSWER_BYTES = 8_192;

/** A decoded request of any kind. */
interface AnyRequest {
  readonly model: string;
  readonly stream?: boolean;
}

/** The parts of a call that its hooks need. `Call` documents each field. */
interface CallWithHooks {
  readonly id: string;
  readonly secret: string | undefined;
  readonly services: { readonly onFailure: OnFailure };
  readonly endpoint: { readonly format: string };
  readonly context: unknown;
  readonly json: { readonly limits: JsonLimits };
  readonly found: {
    readonly model: string | undefined;
    readonly attempts: readonly { readonly reported: GatewayError | undefined }[];
    hooked: HookedCall | undefined;
  };
  assertLive(): void;
  wait<Value>(promise: Promise<Value>): Promise<Value>;
  defer(release: () => void): void;
  waitUntil(work: Promise<unknown>): void;
}

/** The hooks of a gateway. */
export class Hooks {
  /** True when a hook has `after`: only then are answers collected, and their records made. */
  readonly watchesAnswers: boolean;
  readonly #hooks: readonly Hook[];
  /** The hooks with `during`. */
  readonly #during: readonly Hook[];
  readonly #clock: Clock;
  readonly #maxWaitingBytes: number;
  /** The answers that wait for an `after`, with the reporters of their calls. */
  readonly #running = new Map<Promise<void>, Fail>();
  #waitingBytes = 0;
  #isClosed = false;

  /** Throws a TypeError for a hook that is not one, and a RangeError for its time or its memory. */
  constructor(hooks: readonly Hook[], clock: Clock, { maxWaitingHookBytes }: Pick<Limits, "maxWaitingHookBytes">) {
    for (const [index, hook] of hooks.entries()) assertHook(`createGateway: hooks[${index}]`, hook);
    this.watchesAnswers = hooks.some((hook) => typeof hook.after === "function");
    this.#hooks = hooks;
    this.#during = hooks.filter((hook) => typeof hook.during === "function");
    this.#clock = clock;
    this.#maxWaitingBytes = maxWaitingHookBytes;
  }

  /** Runs each `before`, and returns the request to go on with. Shows the call to each `after` from now on. */
  before<Request extends AnyRequest>(
    call: CallWithHooks,
    key: ApiKey,
    kind: KindModule,
    decoded: Request,
  ): Promise<Request> {
    const told = toldOf(call, key, kind.name);
    const collector = this.watchesAnswers ? kind.collector?.() : undefined;
    if (this.watchesAnswers || this.#during.length > 0) call.found.hooked = new HookedCall(this, told, collector);
    return this.#before(call, told, decoded, kind.counts);
  }

  /** Runs each `before` for a request whose tokens are only counted: the count may be the backend's, which must not read more than a call. */
  beforeCount<Request extends AnyRequest>(
    call: CallWithHooks,
    key: ApiKey,
    { name, counts }: Pick<KindModule, "name" | "counts">,
    decoded: Request,
  ): Promise<Request> {
    return this.#before(call, toldOf(call, key, name), decoded, counts);
  }

  /** Returns the answer of a call for the hooks whose `during` is to run; undefined without any. Throws for a hook that fails. */
  outputOf(call: CallWithHooks, told: HookCall): HookedOutput | undefined {
    // The cast is safe: the code of hooks is made by `withDuring` alone.
    return (this.#during[0]?.code as OutputCode | undefined)?.open(call, told, this.#hooks);
  }

  async #before<Request extends AnyRequest>(
    call: CallWithHooks,
    told: HookCall,
    decoded: Request,
    counts: KindModule["counts"],
  ): Promise<Request> {
    let request = decoded;
    let given: Request | undefined;
    for (const hook of this.#hooks) {
      if (!hook.before) continue;
      // A hook that has changed nothing leaves the copy to the next one, because a copy takes long.
      given ??= copyOf(request);
      const changed = await this.#ask(call, hook, request, given, told);
      call.assertLive();
      const isChanged = changed !== undefined && changed !== null;
      if (isChanged) request = withNative(given, changedBy(this.#nameOf(hook, "before"), given, changed, counts));
      // The failure of such a hook, such as a change in place, is passed over.
      if (isChanged || hook.down === "open") given = undefined;
    }
    return request;
  }

  /** @param given The copy of the request that the hook gets. */
  async #ask(
    call: CallWithHooks,
    hook: Hook,
    request: AnyRequest,
    given: AnyRequest,
    told: HookCall,
  ): Promise<unknown> {
    const { down = "closed" } = hook;
    try {
      const changed = await call.wait(
        this.#inTime(
          hook,
          () => hook.before?.(given as unknown as HookRequest, told),
          (end) => call.defer(end),
        ),
      );
      if (!isUnchanged(request, given))
        throw new TypeError(
          "A hook has changed its request in place. Return a changed copy: { ...request, messages }.",
        );
      return changed;
    } catch (thrown) {
      call.assertLive();
      if (thrown instanceof GatewayError) throw thrown;
      const failed = hookFailed(this.#nameOf(hook, "before"), thrown);
      if (down === "closed") throw failed;
      report(call, failed);
      return undefined;
    }
  }

  /** Runs each `after` behind the end of a call. Reports an answer that finds no room. Never throws. */
  after(call: CallWithHooks, hooked: HookedCall, record: CallRecord): void {
    const fail = reporterOf(call);
    let taken = 0;
    const take = (bytes: number): void => {
      if (this.#waitingBytes + bytes > this.#maxWaitingBytes)
        throw new Error(
          `No hook sees this answer: the answers that wait for hooks take more than limits.maxWaitingHookBytes, ${this.#maxWaitingBytes} bytes.`,
        );
      this.#waitingBytes += bytes;
      taken += bytes;
    };
    try {
      const telling = this.#tell(hooked.answer(record, take), hooked.told, fail);
      const running = telling.finally(() => {
        this.#waitingBytes -= taken;
        this.#running.delete(running);
      });
      this.#running.set(running, fail);
      call.waitUntil(running);
    } catch (error) {
      this.#waitingBytes -= taken;
      fail(error);
    }
  }

  #nameOf(hook: Hook, method: "before" | "after"): string {
    return `hooks[${this.#hooks.indexOf(hook)}].${method}`;
  }

  async #tell(answer: HookAnswer, told: HookCall, fail: Fail): Promise<void> {
    for (const hook of this.#hooks) {
      if (!hook.after || this.#isClosed) continue;
      try {
        await this.#inTime(hook, () => hook.after?.(answer, told));
      } catch (thrown) {
        if (!this.#isClosed) fail(thrown, this.#nameOf(hook, "after"));
      }
    }
  }

  /** Runs a function of a hook, and returns its result. Throws what it throws, or an Error when it takes too long. */
  async #inTime(hook: Hook, run: () => unknown, giveUp?: (end: () => void) => void): Promise<unknown> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = hook;
    const result = await within(new Promise((resolve) => resolve(run())), timeoutMs, this.#clock, giveUp);
    if (result === LATE) throw new Error(`A hook took longer than ${timeoutMs} ms.`);
    return result;
  }

  /** Resolves when no `after` is running any more, or after `leftMs` milliseconds. Reports the answers that still wait then. */
  async close(leftMs: number): Promise<void> {
    if (this.#running.size === 0) return;
    const ended = await within(Promise.all(this.#running.keys()), Math.max(0, leftMs), this.#clock);
    if (ended !== LATE) return;
    this.#isClosed = true;
    for (const fail of this.#running.values())
      fail(new Error("The gateway has closed before hooks had seen this answer."));
  }
}

const toldOf = (call: CallWithHooks, key: ApiKey, kind: ModelKind): HookCall => {
  const { id: requestId, found, context, endpoint } = call;
  return { requestId, key, kind, format: endpoint.format, model: found.model ?? "", context };
};

/**
 * Copies a request for a hook, so that a change in place is seen and refused: it would change nothing of the caller's own body, which a relay
 * of the same format sends. Frozen objects would not do, because code without strict mode writes into them without an error. Shares that
 * body, and objects of classes, such as bytes.
 */
const copyOf = <Request extends AnyRequest>(request: Request): Request =>
  Object.fromEntries(
    Object.entries(request).map(([name, value]) => [name, name === "native" ? value : copyOfPart(value)]),
  ) as Request;

function copyOfPart(part: unknown): unknown {
  if (!isPlain(part)) return part;
  if (Array.isArray(part)) return part.map(copyOfPart);
  const copy: Record<string, unknown> = { ...part };
  for (const name of Object.keys(copy)) if (typeof copy[name] === "object") copy[name] = copyOfPart(copy[name]);
  return copy;
}

/** Compares a part of a request with its copy, which a hook may have given any value. */
function isUnchanged(part: unknown, copy: unknown): boolean {
  if (Object.is(part, copy)) return true;
  if (!isPlain(part) || !isPlain(copy) || Array.isArray(part) !== Array.isArray(copy)) return false;
  const [names, copied] = [Object.keys(part), Object.keys(copy)];
  const [fields, values] = [part, copy] as Readonly<Record<string, unknown>>[];
  return (
    names.length === copied.length &&
    names.every((name, at) => copied[at] === name && isUnchanged(fields?.[name], values?.[name]))
  );
}

const isPlain = (value: unknown): value is object =>
  typeof value === "object" &&
  value !== null &&
  [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(value));

function assertCode(path: string, code: unknown): void {
  if (typeof (code as Partial<OutputCode> | null)?.open !== "function")
    throw new TypeError(`${path} must be given by withDuring of polygate/hooks.`);
}

function assertHook(path: string, hook: Hook): void {
  assertOptions<Hook>(path, hook, {
    before: "function?",
    during: "function?",
    code: { optional: assertCode },
    needsDuring: "function?",
    after: "function?",
    timeoutMs: "timerMs?",
    maxHoldBytes: "positive?",
    maxHoldMs: "timerMs?",
    down: { optional: ["closed", "open"] },
  });
  if (hook.during && !hook.code)
    throw new TypeError(`${path}: during needs its code: give withDuring(hook) of polygate/hooks.`);
  if (!hook.before && !hook.during && !hook.after)
    throw new TypeError(`${path} must have a function before, during or after.`);
}

/** Checks what a hook has returned. Throws a GatewayError that only the host hears the cause of. */
function changedBy<Request extends AnyRequest>(
  name: string,
  request: Request,
  changed: unknown,
  counts: KindModule["counts"] = [],
): Request {
  const own = changed as Partial<Request>;
  const isRequest = typeof changed === "object" && typeof own.model === "string" && own.stream === request.stream;
  const lacks = Object.entries(request).find(
    ([field, value]) => Array.isArray(value) && !Array.isArray(own[field as keyof Request]),
  );
  const hasCounts = counts.every((field) => {
    const count = (own as Readonly<Record<string, unknown>>)[field];
    return count === undefined || (Number.isSafeInteger(count) && Number(count) >= 1);
  });
  if (isRequest && !lacks && hasCounts) return changed as Request;
  const fault =
    typeof changed === "object"
      ? `one with a wrong ${lacks?.[0] ?? (isRequest ? "count" : "model or stream")}`
      : shown(changed);
  throw wrongReturn(
    `${name} must return nothing, or a request like the one that it was given, { ...request, messages }, not ${fault}.`,
  );
}

/**
 * Marks the caller's own body as one of another format when its meaning has changed: the backend then encodes the request anew, and tells
 * the fields that are lost.
 */
function withNative<Request extends AnyRequest>(before: Request, after: Request): Request {
  const { native } = before as Partial<ChatRequest>;
  if (!native) return after;
  const fields = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Request>;
  fields.delete("model");
  const isSame = [...fields].every((field) => before[field] === after[field]);
  return isSame
    ? after
    : { ...after, native: { ...native, format: `${native.format.replace(REWRITTEN, "")}${REWRITTEN}` } };
}

/** Behind the name of the format of a body that a hook has changed. */
const REWRITTEN = " (rewritten)";

/** The content of an answer whose kind shows none. */
const NO_CONTENT: HookContent = { text: "", reasoning: "", toolCalls: [], finishReason: undefined, isCut: false };

/** A call that hooks see: passes its answer through their `during`, and collects it for their `after`. */
export class HookedCall {
  readonly told: HookCall;
  readonly #hooks: Hooks;
  readonly #content: ContentCollector<unknown> | undefined;
  #output: HookedOutput | undefined = undefined;
  #onShown: ((event: unknown) => void) | undefined = undefined;

  constructor(hooks: Hooks, told: HookCall, content: ContentCollector<unknown> | undefined) {
    this.#hooks = hooks;
    this.told = told;
    this.#content = content;
  }

  /** Returns a generation whose listener collects the answer, as hooks show it. */
  generation<Generated extends { onEvent?(event: never): void }>(call: CallWithHooks, generated: Generated): Generated {
    const listening = generated as { onEvent?(event: unknown): void };
    const listener = (event: unknown): void => {
      listening.onEvent?.(event);
      this.#content?.onEvent(event);
    };
    this.#output = this.#hooks.outputOf(call, this.told);
    if (!this.#output) return this.#content ? { ...generated, onEvent: listener } : generated;
    this.#onShown = listener;
    return { ...generated, onEvent: undefined };
  }

  /** Returns the events of the answer as hooks show them. */
  async shown<Answered>(
    call: CallWithOutput,
    events: EndableEvents<Answered>,
    quietMs: number | undefined,
  ): Promise<AnswerEvents<Answered>> {
    return (await this.#output?.shown(call, events, quietMs, this.#onShown)) ?? events;
  }

  /**
   * Returns the answer.
   *
   * @param take Books its memory in bytes, before the arguments of tools are parsed. Its errors are thrown.
   */
  answer(record: CallRecord, take: (bytes: number) => void): HookAnswer {
    const content = this.#content;
    take(ANSWER_BYTES + (content?.bytes ?? 0));
    const budget = new JsonBudget();
    budget.booking = { take };
    return { record, ...(content?.content(budget) ?? NO_CONTENT) };
  }

  /** Shows the answer to the hooks, behind the end of the call. */
  end(call: CallWithHooks, record: CallRecord): void {
    if (this.#hooks.watchesAnswers) this.#hooks.after(call, this, record);
  }
}
