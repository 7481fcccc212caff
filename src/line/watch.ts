/** The host's observer of one call, behind a guard: whatever it does, the call goes its way. */

import { redact } from "../http/credential.ts";
import type {
  AskedUpstream,
  CallObserver,
  HoldChange,
  Observer,
  RateDecision,
  UpstreamObserver,
  UpstreamOutcome,
} from "../ports/call-observer.ts";
import type { CallRecord } from "../ports/observer.ts";
import { guarded } from "./failure.ts";

/** What of a call its observer is told at its beginning. */
interface Begun {
  readonly id: string;
  readonly context: unknown;
  readonly request: Request;
  readonly endpoint: {
    readonly dialect: string;
    readonly kind: "chat" | "image" | "query" | "public";
    readonly path: string;
  };
  /** The api key as the caller sent it, once it was read. */
  readonly secret: string | undefined;
}

/** What watches a call that begins; undefined where its observer does not want to. */
export function watchOf(observer: Observer, call: Begun): CallWatch | undefined {
  const { id, context, request, endpoint } = call;
  const begun = {
    requestId: id,
    context,
    headers: request.headers,
    dialect: endpoint.dialect,
    kind: endpoint.kind,
    method: request.method,
    route: endpoint.path,
  };
  const watching = quietly(() => observer.begin(begun));
  return watching && new CallWatch(watching, call);
}

export class CallWatch {
  /** The host's own: it may throw, so that only `quietly` calls it. */
  readonly observer: CallObserver;
  readonly #call: Begun;

  constructor(observer: CallObserver, call: Begun) {
    this.observer = observer;
    this.#call = call;
  }

  /** A backend's events; whatever of the backend runs for them runs in what the observer has active. */
  source<Event>(events: () => AsyncIterable<Event>): AsyncIterator<Event> {
    const source = this.#run(() => events()[Symbol.asyncIterator]());
    return {
      next: () => this.#run(() => source.next()),
      return: () => this.#run(() => source.return?.() ?? Promise.resolve({ done: true, value: undefined })),
    };
  }

  #run<Result>(work: () => Result): Result {
    const { observer } = this;
    return observer.run ? ran((inner) => observer.run?.(inner), work) : work();
  }

  rateLimit(decision: RateDecision): void {
    quietly(() => this.observer.rateLimit?.(decision));
  }

  hold(change: HoldChange): void {
    quietly(() => this.observer.hold?.(change));
  }

  upstream(asked: AskedUpstream): UpstreamObserver {
    // A model's name may be the caller's own text, and a caller may write its key anywhere.
    const { secret } = this.#call;
    const model = redact(asked.model, secret);
    return new UpstreamWatch(
      quietly(() => this.observer.upstream?.({ ...asked, model })),
      secret,
    );
  }

  end(record: CallRecord): void {
    quietly(() => this.observer.end(record));
  }
}

class UpstreamWatch implements UpstreamObserver {
  readonly headers: Readonly<Record<string, string>>;
  readonly #observer: UpstreamObserver | undefined;
  readonly #secret: string | undefined;

  constructor(observer: UpstreamObserver | undefined, secret: string | undefined) {
    this.#observer = observer;
    this.#secret = secret;
    this.headers = quietly(() => validHeaders(observer?.headers)) ?? {};
  }

  run<Result>(work: () => Result): Result {
    return ran((inner) => this.#observer?.run(inner), work);
  }

  end(outcome: UpstreamOutcome): void {
    const { model } = outcome;
    const told = model === undefined ? outcome : { ...outcome, model: redact(model, this.#secret) };
    quietly(() => this.#observer?.end(told));
  }
}

/** Headers that no upstream's connection breaks over; all others are left out. */
function validHeaders(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => /^[\w-]+$/.test(name) && /^[\t\u0020-\u007e]*$/.test(value)),
  );
}

/** What `work` returns or throws: it runs inside `around` where that runs it, and by itself where it does not. Once, in any case. */
function ran<Result>(around: (work: () => Result) => unknown, work: () => Result): Result {
  let outcome: { readonly value: Result } | { readonly error: unknown } | undefined;
  const once = (): Result => {
    if (!outcome)
      try {
        outcome = { value: work() };
      } catch (error) {
        outcome = { error };
      }
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  };
  // The work's own error is thrown below, any other is the observer's.
  quietly(() => {
    const said = around(once);
    // A promise of the work's own is for who waits for it.
    return outcome && "value" in outcome && said === outcome.value ? undefined : said;
  });
  return once();
}

/** What a function of an observer's returns; undefined where it throws. */
export function quietly<Result>(ask: () => Result): Result | undefined {
  try {
    const said = ask();
    // A function that is async by mistake may reject later.
    if (said instanceof Promise) void guarded(() => said);
    return said;
  } catch {
    return undefined;
  }
}
