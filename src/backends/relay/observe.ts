/** Tells the gateway's observer of one exchange with the upstream: what was asked, and how it ended. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import type { ChatEvent, FinishReason } from "../../model/event.ts";
import type { Usage } from "../../model/usage.ts";
import type { AskedUpstream, UpstreamObserver } from "../../ports/call-observer.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import type { Exchange } from "./exchange.ts";
import type { UpstreamResponse } from "./transport.ts";
import type { Sent, Upstream } from "./upstream.ts";

/** What tells the gateway's observer of an exchange that begins; undefined where there is none. */
export function observed(
  upstream: Upstream,
  asked: Pick<AskedUpstream, "format" | "model" | "stream">,
  { observeUpstream }: CallContext,
): ObservedExchange | undefined {
  if (!observeUpstream) return undefined;
  const { names, address, port } = upstream;
  return new ObservedExchange(
    upstream,
    observeUpstream({ ...asked, modelListed: names.list !== undefined, address, port }),
  );
}

export class ObservedExchange {
  readonly #upstream: Upstream;
  readonly #observer: UpstreamObserver;
  readonly #beganAt: number;
  #status: number | undefined;
  #errorCode: GatewayErrorCode | undefined;
  #model: string | undefined;
  #usage: Partial<Usage> | undefined;
  #finishReason: FinishReason | undefined;
  #firstEventMs: number | undefined;

  constructor(upstream: Upstream, observer: UpstreamObserver) {
    this.#upstream = upstream;
    this.#observer = observer;
    this.#beganAt = upstream.clock.now();
  }

  /** Sends the request with the observer's headers; the host's own win over those. */
  async send(sent: Sent, exchange: Exchange): Promise<UpstreamResponse> {
    const headers = { ...sent.headers, ...this.#observer.headers };
    const response = await this.#observer.run(() => this.#upstream.send({ ...sent, headers }, exchange));
    this.#status = response.status;
    return response;
  }

  /** The upstream has sent its first event. */
  began(): void {
    this.#firstEventMs ??= this.#elapsedMs();
  }

  saw(event: ChatEvent): void {
    this.began();
    switch (event.type) {
      case "native":
        for (const meant of event.means) this.saw(meant);
        break;
      case "start":
        this.#model = event.model ?? this.#model;
        this.#count(event.usage);
        break;
      case "finish":
        this.#finishReason ??= event.reason;
        this.#count(event.usage);
        break;
      case "usage":
        this.#count(event.usage);
        break;
      default:
    }
  }

  failed({ code }: GatewayError): void {
    this.#errorCode = code;
  }

  /** @param signal The call's: an answer that nobody reads to its end was cut by it, or has been enough. */
  end({ reason }: AbortSignal): void {
    this.#observer.end({
      status: this.#status,
      errorCode: this.#errorCode ?? (reason as GatewayError | undefined)?.code,
      model: this.#model && this.#upstream.failures.redacted(this.#model),
      usage: this.#usage,
      finishReason: this.#finishReason,
      firstEventMs: this.#firstEventMs,
      endMs: this.#elapsedMs(),
    });
  }

  #count(usage: Partial<Usage> | undefined): void {
    if (usage) this.#usage = { ...this.#usage, ...usage };
  }

  #elapsedMs(): number {
    return this.#upstream.clock.now() - this.#beganAt;
  }
}
