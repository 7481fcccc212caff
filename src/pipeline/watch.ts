/** Guards the host's observer of a call: whatever the observer does, the call goes on. */

import { redact } from "../http/request.ts";
import type { ModelKind } from "../ports/call.ts";
import type {
  AskedUpstream,
  CallObserver,
  HoldChange,
  Observer,
  RateDecision,
  TelemetryNames,
  UpstreamObserver,
  UpstreamOutcome,
  CallRecord,
} from "../ports/observer.ts";
import { quietly } from "./failures.ts";

/** The facts that an observer receives at the beginning of a call. */
interface Begun {
  readonly id: string;
  readonly context: unknown;
  readonly request: Request;
  readonly endpoint: {
    readonly format: string;
    readonly kind: ModelKind | "query" | "public";
    readonly path: string;
  };
  /** The API key as the caller sent it, after it was read. */
  readonly secret: string | undefined;
  readonly services: { readonly telemetry: ReadonlyMap<string, TelemetryNames> };
}

/** Returns the watch on a call that begins; undefined when the observer does not want one. */
export function watchOf(observer: Observer, call: Begun): CallWatch | undefined {
  const { id, context, request, endpoint } = call;
  const begun = {
    requestId: id,
    context,
    headers: request.headers,
    format: endpoint.format,
    telemetry: call.services.telemetry.get(endpoint.format),
    kind: endpoint.kind,
    method: request.method,
    route: endpoint.path,
  };
  const watching = quietly(() => observer.begin(begun));
  return watching && new CallWatch(watching, call);
}

export class CallWatch {
  /** The host's own observer, which may throw: call it only within `quietly`. */
  readonly observer: CallObserver;
  readonly #call: Begun;

  constructor(observer: CallObserver, call: Begun) {
    this.observer = observer;
    this.#call = call;
  }

  /** Returns the backend's events. The backend runs inside the context that the observer has made active. */
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
    // A model's name is the caller's own text, and a caller may write its key anywhere.
    const { secret, services } = this.#call;
    const model = redact(asked.model, secret);
    const telemetry = asked.telemetry ?? services.telemetry.get(asked.format);
    return new UpstreamWatch(
      quietly(() => this.observer.upstream?.({ ...asked, telemetry, model })),
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

/** Returns the headers that are valid in a request; drops all others. */
function validHeaders(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => /^[\w-]+$/.test(name) && /^[\t\u0020-\u007e]*$/.test(value)),
  );
}

/**
 * Runs `work` exactly once: inside `around` if `around` calls it, and by itself otherwise. Returns or throws the outcome of `work`.
 */
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
  // An error of `work` is thrown below; any other error is the observer's.
  quietly(() => {
    const said = around(once);
    // Do not await the work's promise here; the caller does.
    return outcome && "value" in outcome && said === outcome.value ? undefined : said;
  });
  return once();
}
