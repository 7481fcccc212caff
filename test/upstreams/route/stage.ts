/** Upstreams of a route that answer in virtual time, and calls to them. */

import type { GatewayError } from "../../../src/errors.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { CallContext, ModelBackend } from "../../../src/ports/model-backend.ts";
import type { AskedUpstream, UpstreamObserver, UpstreamOutcome } from "../../../src/ports/observer.ts";
import type { ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import { callContext, chatRequest } from "../relay/stage.ts";

/** A step of an answer: a wait in milliseconds, an event, or an error. */
export type Step = number | string | ChatEvent | Error;

export interface Scripted extends ModelBackend {
  readonly requests: ChatRequest[];
  readonly calls: CallContext[];
  /** The answers that were cut. */
  cut: number;
}

/** Waits on a clock; rejects as soon as the signal fires. */
const wait = (clock: ManualClock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(ms, resolve);
    const onAbort = (): void => {
      cancel();
      reject(signal.reason as Error);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });

/** @param steps The answer to each request, by its number from 0. */
export function scripted(clock: ManualClock, steps: (call: number) => readonly Step[]): Scripted {
  const backend: Scripted = {
    requests: [],
    calls: [],
    cut: 0,
    async *chat(request, call) {
      const number = backend.requests.push(request) - 1;
      backend.calls.push(call);
      let isWhole = false;
      try {
        for (const step of steps(number)) {
          if (typeof step === "number") await wait(clock, step, call.signal);
          else if (step instanceof Error) throw step;
          else yield step;
        }
        isWhole = true;
      } finally {
        if (!isWhole) backend.cut++;
      }
    },
  };
  return backend;
}

export interface Asked {
  readonly events: (ChatEvent | string)[];
  text: string;
  error: GatewayError | undefined;
  isOver: boolean;
}

/** Begins a call. Its answer grows as the clock goes on. */
export function begin(
  backend: ModelBackend,
  more: Partial<ChatRequest> = {},
  call: Partial<CallContext> & { readonly signal?: AbortSignal } = {},
): Asked {
  const asked: Asked = { events: [], text: "", error: undefined, isOver: false };
  const run = async (): Promise<void> => {
    const { signal, ...others } = call;
    const context = { ...callContext(signal), ...others };
    for await (const event of backend.chat?.(chatRequest({ model: "m", ...more }), context) ?? []) {
      asked.events.push(event);
      if (typeof event === "string") asked.text += event;
    }
  };
  void run()
    .catch((error: GatewayError) => (asked.error = error))
    .finally(() => (asked.isOver = true));
  return asked;
}

/** Asks, and lets time pass until the answer has ended. */
export async function ask(
  backend: ModelBackend,
  clock: ManualClock,
  more: Partial<ChatRequest> = {},
  call: Partial<CallContext> = {},
): Promise<Asked> {
  const asked = begin(backend, more, call);
  await clock.advance(0);
  while (!asked.isOver) await clock.advance(10);
  return asked;
}

/** An attempt as the gateway hears of it. */
export interface Attempted extends Partial<UpstreamOutcome> {
  readonly name: string | undefined;
  isChosen: boolean;
}

/** Records the attempts of a call. */
export function observing(attempts: Attempted[]): Pick<CallContext, "observeUpstream"> {
  return {
    observeUpstream({ name }: AskedUpstream): UpstreamObserver {
      const attempt: Attempted = { name, isChosen: false };
      attempts.push(attempt);
      return {
        headers: {},
        isBrief: true,
        run: (work) => work(),
        chosen: () => void (attempt.isChosen = true),
        end: (outcome) => void Object.assign(attempt, outcome),
      };
    },
  };
}
