/** Asks a language model of an AI SDK provider, complete or as a stream. */

import { nextIteration } from "../../media/yield-to-event-loop.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { ChatEvent } from "../../model/event.ts";
import { isJsonObject } from "../../model/json.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { reportFates } from "../relay/fates.ts";
import { Asking } from "./asking.ts";
import type { CallOptions } from "./call-options.ts";
import { decodeError } from "./errors.ts";
import { AnswerEvents } from "./events.ts";
import { failed, type WirePart } from "./parts.ts";
import { fatesOfWarnings } from "./fates.ts";
import type { AiSdkChatModel } from "./options.ts";
import { type EncodedCall, encodeCall } from "./encode-call.ts";
import type { Settings } from "./settings.ts";
import { type Traits, traitsOf, Urls } from "./traits.ts";

/** The interface of a language model as it is called: what it answers is not taken for granted. */
interface Callable {
  doGenerate(options: CallOptions): PromiseLike<unknown>;
  doStream(options: CallOptions): PromiseLike<unknown>;
}

/** After how many parts the event loop serves others, so that a model that never waits cannot keep a hang-up from being seen. */
const PARTS_A_SLICE = 256;

export async function* askChat(
  model: AiSdkChatModel,
  request: ChatRequest,
  call: CallContext,
  settings: Settings,
): AsyncGenerator<ChatEvent> {
  const asking = new Asking(settings.clock, call.signal);
  const chat: Chat = { model, request, call, settings, asking };
  try {
    asking.signal.throwIfAborted();
    const encoded = encodeCall(request, await traits(model, request, asking), settings.providerOptions);
    // What must be refused is refused before anybody is asked.
    reportFates(encoded.fates, call, settings.strict);
    if (request.stream) yield* streamed(chat, encoded);
    else yield* await complete(chat, encoded);
  } catch (error) {
    throw decodeError(error, settings.showMessages);
  } finally {
    asking.leave();
  }
}

interface Chat {
  readonly model: Callable;
  readonly request: ChatRequest;
  readonly call: CallContext;
  readonly settings: Settings;
  readonly asking: Asking;
}

/** Which addresses the model fetches is asked only where the request holds one. */
async function traits(model: AiSdkChatModel, { messages }: ChatRequest, asking: Asking): Promise<Traits> {
  const hasUrls = messages.some(({ parts }) =>
    parts.some((part) => [part, ...(part.type === "tool-result" ? part.parts : [])].some(isAddressed)),
  );
  if (!hasUrls) return traitsOf(model, new Urls(undefined));
  return traitsOf(model, new Urls(await asking.of(Promise.resolve(model.supportedUrls))));
}

const isAddressed = (part: { readonly type: string; readonly source?: { readonly type: string } }): boolean =>
  part.source?.type === "url" || part.source?.type === "parts";

function events({ request, settings }: Chat): AnswerEvents {
  const { showModel, showMessages } = settings;
  return new AnswerEvents({ model: showModel ? undefined : request.model, messages: showMessages });
}

async function complete(chat: Chat, { options, fates }: EncodedCall): Promise<readonly ChatEvent[]> {
  const { model, call, settings, asking } = chat;
  asking.enter({ name: "complete answer", limitMs: settings.timeouts.completeMs });
  const answer = await asking.of(model.doGenerate({ ...options, abortSignal: asking.signal }));
  if (!isJsonObject(answer)) throw failed("The model backend's answer is none.");
  reportFates([...fates, ...fatesOfWarnings(answer["warnings"])], call, settings.strict);
  return events(chat).answer(answer);
}

/** By its shape: a provider may bring a stream of another realm's, or of its own. */
const isStream = (value: unknown): value is ReadableStream<unknown> =>
  typeof (value as Partial<ReadableStream> | null | undefined)?.getReader === "function";

async function* streamed(chat: Chat, { options, fates }: EncodedCall): AsyncGenerator<ChatEvent> {
  const { model, call, settings, asking } = chat;
  const { firstEventMs, betweenEventsMs } = settings.timeouts;
  asking.enter({ name: "first event", limitMs: firstEventMs });
  const answer = await asking.of(model.doStream({ ...options, abortSignal: asking.signal }));
  const stream = isJsonObject(answer) ? (answer as WirePart)["stream"] : undefined;
  if (!isStream(stream)) throw failed("The model backend's answer is no stream.");
  const reader = stream.getReader();
  asking.onLeave(() => void Promise.resolve(reader.cancel()).catch(() => {}));
  const decoded = events(chat);
  for (let count = 1; !decoded.isFinished; count++) {
    const { done, value } = await asking.of(reader.read());
    if (done) throw failed("The model backend's answer broke off.");
    if (!isJsonObject(value)) throw failed("The model backend's answer has a part that is none.");
    if (count === 1) asking.enter({ name: "next event", limitMs: betweenEventsMs });
    else asking.touch();
    if (value["type"] === "stream-start")
      reportFates([...fates, ...fatesOfWarnings(value["warnings"])], call, settings.strict);
    else yield* decoded.part(value);
    if (count % PARTS_A_SLICE === 0) await nextIteration();
  }
}
