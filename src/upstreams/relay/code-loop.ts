/**
 * Runs the code of models that cannot run code themselves: gives the model a function in place of the tool, runs its calls with the gateway's
 * code runner, and asks the model again with the results. The caller sees code and results, as from a provider that runs code.
 */

import { backendFailed } from "../../errors.ts";
import type { RelayedContext } from "../../formats/module.ts";
import { AnsweredArguments, CUT_SHORT } from "../../formats/shared/tools.ts";
import {
  type Annotation,
  type ChatEvent,
  type FinishEvent,
  movedBy,
  type NativeEvent,
} from "../../model/chat-event.ts";
import { type ChatMessage, type ChatRequest, CODE_TOOL, type Part, type ToolChoice } from "../../model/chat-request.ts";
import { given, type JsonLimits, utf8Length } from "../../model/json.ts";
import { sumOfUsages, type Usage } from "../../model/usage.ts";
import type { CodeResult, CodeToRun } from "../../ports/code-runner.ts";
import type { CallContext } from "../../ports/model-backend.ts";

/** The most pieces of code of one turn. Further calls are answered with an error. */
const MAX_RUNS_A_TURN = 16;

/** A token has about so many characters. Used where an upstream does not count. */
const CHARS_A_TOKEN = 4;

/**
 * The most characters of a turn, for each token of its limit, and beside them. Nobody but the loop sees the arguments of its function, so the
 * gateway's own bound of an answer does not hold for them.
 */
const MAX_CHARS = { aToken: 64, beside: 1_024 };

/** The memory of a call beside its texts, counted as characters. */
const RUN_CHARS = 64;

type Neutral = Exclude<ChatEvent, NativeEvent>;

/** The call as one turn sees it. */
export type TurnContext = RelayedContext<ChatEvent> & Pick<CallContext, "key" | "reportConversions">;

/** @param isFirst False for a later turn, which is the loop's own request: nothing that it loses is the caller's loss. */
type Ask = (request: ChatRequest, call: TurnContext, isFirst: boolean) => AsyncIterable<ChatEvent>;

/** The parts of a loop that do not change. */
interface CodeLoop {
  readonly ask: Ask;
  readonly runCode: (code: CodeToRun) => Promise<CodeResult>;
  readonly maxTurns: number;
  readonly json: JsonLimits | undefined;
  /** The wire format of the upstream, which makes the signatures of its reasoning. */
  readonly format: string;
}

/**
 * Answers a request whose model may run code. A turn that also calls a function of the caller's own is the last one: its code is run and
 * shown, and the caller goes on with the result of the function. The output limit holds for all turns together. The gateway holds quota for
 * each turn before it is asked, and prices each turn by itself: without quota for a further turn, the answer ends there.
 */
export async function* withCode(
  loop: CodeLoop,
  request: ChatRequest,
  call: CallContext,
): AsyncGenerator<ChatEvent, void> {
  const name = nameFor(request);
  let asked = offered(request, name);
  const counted = new Counted();
  for (let number = 1; ; number++) {
    const turn = new ModelTurn(loop, name, number, counted, asked.maxOutputTokens);
    try {
      for await (const event of loop.ask(asked, contextOf(turn, call), turn.isFirst)) {
        const passed = turn.pass(event);
        if (passed) yield passed;
      }
    } catch (error) {
      // The gateway has not seen the calls of the function, but the upstream charges them.
      if (counted.hasBegun) yield counted.soFar(turn.finish !== undefined);
      throw error;
    }
    const { finish, runs } = turn;
    if (!finish) return;
    // A model that may call no tool has ended its answer, even if it calls one.
    if (runs.length === 0 || !turn.goesOn || asked.toolChoice?.type === "none")
      return yield counted.finish(
        runs.length > 0 && finish.reason === "tool-calls" ? { ...finish, reason: "stop" } : finish,
      );
    const results: Part[] = [];
    for (const [index, { id, code }] of runs.entries()) {
      let text = "The call needs one argument: code, a text.";
      if (index >= MAX_RUNS_A_TURN) text = `Not run: a turn may run code ${MAX_RUNS_A_TURN} times.`;
      else if (code !== undefined) {
        yield { type: "code", id, language: "python", code };
        const { outcome, output } = await loop.runCode({ language: "python", code });
        yield { type: "code-result", id, outcome, output };
        text = outcome === "ok" ? output || "The code has printed nothing." : `${FAILED[outcome]}\n${output}`;
      }
      results.push({ type: "tool-result", callId: id, name, parts: [{ type: "text", text }] });
    }
    if (turn.callsOthers) return yield counted.finish(finish);
    const choice: ToolChoice = number < loop.maxTurns ? afterwards(asked.toolChoice) : { type: "none" };
    const messages: ChatMessage[] = [
      ...asked.messages,
      { role: "assistant", parts: turn.parts },
      { role: "user", parts: results },
    ];
    const next = await paid({ ...asked, messages, toolChoice: choice }, request.maxOutputTokens, counted, call);
    if (!next) return yield counted.finish({ ...finish, reason: "length" });
    const { maxOutputTokens: left, maxAnswerTokens } = next;
    asked = { ...next, ...(maxAnswerTokens !== undefined && { maxAnswerTokens: Math.min(maxAnswerTokens, left) }) };
  }
}

/**
 * Closes the counts of the turns so far, and returns the request for the next turn with its output limit. Returns undefined when no token is
 * left, or the quota of the key does not cover the turn.
 *
 * @param most The output limit of all turns together.
 */
async function paid(
  request: ChatRequest,
  most: number,
  counted: Counted,
  call: CallContext,
): Promise<ChatRequest | undefined> {
  if (call.continueWith) {
    // The events of the turn are counted.
    call.reportUnread?.(() => []);
    const next = await call.continueWith(request, true);
    if (next) counted.nextTurn(true);
    return next;
  }
  const left = most - counted.outputTokens;
  if (left < 1) return undefined;
  counted.nextTurn(false);
  return { ...request, maxOutputTokens: left };
}

const FAILED = { failed: "The code has failed.", "deadline-exceeded": "The code has taken too long." } as const;

/** Returns the call as a turn sees it: events that the turn has received and nobody has read are counted with all turns. */
const contextOf = (turn: ModelTurn, call: CallContext): TurnContext => ({
  key: call.key,
  signal: call.signal,
  observeUpstream: call.observeUpstream,
  reportUnread: (unread) => call.reportUnread?.(() => turn.unread(unread())),
  reportConversions(conversions) {
    if (turn.isFirst) call.reportConversions(conversions);
  },
});

/** Returns a name for the function that no tool of the caller has. */
function nameFor({ tools }: ChatRequest): string {
  const taken = new Set(tools.flatMap((tool) => (tool.type === "code-execution" ? [] : (tool.name ?? []))));
  let name = "run_python";
  for (let number = 2; taken.has(name); number++) name = `run_python_${number}`;
  return name;
}

/** Puts the function in place of the tool that runs code. */
function offered(request: ChatRequest, name: string): ChatRequest {
  const { toolChoice } = request;
  const tools = request.tools.filter(({ type }) => type !== "code-execution");
  const renamed = (one: string): string => (one === CODE_TOOL ? name : one);
  const choice: ToolChoice | undefined =
    toolChoice?.type === "tool"
      ? { ...toolChoice, name: renamed(toolChoice.name) }
      : toolChoice && toolChoice.type !== "none" && toolChoice.names
        ? { ...toolChoice, names: toolChoice.names.map(renamed) }
        : toolChoice;
  return {
    ...request,
    // A stream shows each piece of code when it is known, and tells what has come when the caller leaves.
    stream: true,
    tools: [...tools, { type: "function", name, description: DESCRIPTION, inputSchema: SCHEMA }],
    ...(choice && { toolChoice: choice }),
  };
}

const DESCRIPTION =
  "Runs Python code in a sandbox without network, and returns what it prints. Each run is fresh: no variables and files of earlier runs exist.";
const SCHEMA = {
  type: "object",
  properties: { code: { type: "string", description: "A whole Python program. Print the results." } },
  required: ["code"],
  additionalProperties: false,
};

/** Returns the choice after code was run: the model has then called a tool, as a choice may demand. */
const afterwards = (choice: Exclude<ToolChoice, { type: "none" }> | undefined): ToolChoice =>
  choice
    ? { type: "auto", parallel: choice.parallel, ...("names" in choice && choice.names && { names: choice.names }) }
    : { type: "auto", parallel: true };

interface Run {
  readonly id: string;
  readonly signed: Signed;
  json: string;
  /** Undefined for arguments without code, and for a call that has not ended. */
  code: string | undefined;
}

interface Signed {
  readonly signature?: string;
  readonly maker?: string;
}

/** Adds up the usage of the turns whose counts are not final in the meter. */
class Counted {
  #before: Partial<Usage> = {};
  #turn: Partial<Usage> = {};
  #outputBefore = 0;
  /** The input of the turn before. */
  #inputBefore: number | undefined;
  /** True once a turn has ended without a count of its output. */
  #isPartial = false;
  /** The characters of the turn's output, for upstreams that do not count. */
  chars = 0;
  /** The text of all turns, in bytes. */
  textBytes = 0;
  /** True once the turn has begun. */
  hasBegun = false;

  /** Returns the usage so far. */
  learn(usage: Partial<Usage> | undefined): Partial<Usage> {
    this.hasBegun = true;
    this.#turn = { ...this.#turn, ...usage };
    return sumOfUsages(this.#before, this.#turn);
  }

  get outputTokens(): number {
    return this.#outputBefore + (this.#turn.outputTokens ?? this.#estimate);
  }

  get #estimate(): number {
    return Math.ceil(this.chars / CHARS_A_TOKEN);
  }

  /**
   * Returns the usage so far. The last turn has broken off.
   *
   * @param hasEnded True after the end of the turn. Before, its counts may not include its latest output.
   */
  soFar(hasEnded: boolean): Extract<ChatEvent, { type: "usage" }> {
    const latest = Math.max(this.#turn.outputTokens ?? 0, this.#estimate);
    const outputTokens = hasEnded ? this.outputTokens : this.#outputBefore + latest;
    // A turn reads at least as much as the turn before it.
    if (this.hasBegun)
      this.#turn = { ...(this.#inputBefore !== undefined && { inputTokens: this.#inputBefore }), ...this.#turn };
    return { type: "usage", usage: { ...sumOfUsages(this.#before, this.#turn), outputTokens } };
  }

  /** @param isClosed True where the gateway has closed the counts, and adds those of the next turn itself. */
  nextTurn(isClosed: boolean): void {
    this.#inputBefore = this.#turn.inputTokens;
    if (!isClosed) {
      this.#isPartial ||= this.#turn.outputTokens === undefined;
      this.#outputBefore = this.outputTokens;
      this.#before = sumOfUsages(this.#before, this.#turn);
    }
    this.#turn = {};
    this.chars = 0;
    this.hasBegun = false;
  }

  /** Returns the end of the answer with the usage. */
  finish(finish: FinishEvent): FinishEvent {
    const usage = this.learn(finish.usage);
    // Take back the counts of the other turns: without a count, the gateway estimates the output of the whole answer.
    if (this.#isPartial || this.#turn.outputTokens === undefined) Object.assign(usage, { outputTokens: undefined });
    return { ...finish, usage };
  }
}

class ModelTurn {
  /** The assistant's turn, as it goes back to the model. */
  readonly parts: Part[] = [];
  readonly runs: Run[] = [];
  finish: FinishEvent | undefined;
  callsOthers = false;
  readonly #loop: CodeLoop;
  readonly #name: string;
  readonly #number: number;
  readonly #counted: Counted;
  readonly #maxChars: number;
  /** The length of the text of the turns before, in bytes. */
  readonly #textStart: number;
  readonly #arguments: AnsweredArguments;
  readonly #open: Map<string, Run> = new Map();

  constructor(loop: CodeLoop, name: string, number: number, counted: Counted, maxOutputTokens: number) {
    this.#loop = loop;
    this.#name = name;
    this.#number = number;
    this.#counted = counted;
    this.#maxChars = maxOutputTokens * MAX_CHARS.aToken + MAX_CHARS.beside;
    this.#textStart = counted.textBytes;
    this.#arguments = new AnsweredArguments(loop.json);
  }

  get isFirst(): boolean {
    return this.#number === 1;
  }

  /** False for a turn that was cut short, which may hold half a program, or that ended at a stop sequence of the caller's. */
  get goesOn(): boolean {
    const { reason } = this.finish ?? {};
    return reason !== undefined && !CUT_SHORT.has(reason) && reason !== "stop-sequence";
  }

  /** Returns the event that the caller sees, if any. */
  pass(event: ChatEvent): ChatEvent | undefined {
    if (event.type !== "native") return this.#pass(event);
    const events = event.events.flatMap((known) => this.#pass(known) ?? []);
    const { format, unsupported } = event;
    return events.length === 0 && !unsupported
      ? undefined
      : { type: "native", format, frames: [], events, ...(unsupported && { unsupported }) };
  }

  /** Counts the unread events of a call that was cut. */
  *unread(events: Iterable<ChatEvent>): Generator<ChatEvent> {
    for (const event of events) {
      const passed = this.pass(event);
      if (passed) yield passed;
    }
    const { finish, runs } = this;
    yield finish && runs.length === 0 ? this.#counted.finish(finish) : this.#counted.soFar(finish !== undefined);
  }

  #pass(event: Neutral): Neutral | undefined {
    switch (event.type) {
      case "start": {
        const usage = this.#counted.learn(event.usage);
        return this.isFirst ? { ...event, usage } : { type: "usage", usage };
      }
      case "usage":
        return { ...event, usage: this.#counted.learn(event.usage) };
      case "finish":
        this.finish = event;
        // Each call that gets a result must be in the turn.
        for (const run of this.#open.values()) this.#end(run, {});
        return { type: "usage", usage: this.#counted.learn(event.usage) };
      case "tool-call":
        if (event.name === this.#name) return this.#begin(event, JSON.stringify(event.input));
        this.callsOthers = true;
        return event;
      case "tool-call-start":
        if (event.name === this.#name) return this.#begin(event);
        this.callsOthers = true;
        return event;
      case "tool-call-delta":
      case "tool-call-end": {
        const run = this.#open.get(event.id);
        if (!run) return event;
        if (event.type === "tool-call-delta") this.#extend(run, event.json);
        else this.#end(run, event);
        return undefined;
      }
      case "text-delta":
        this.#count(event.text);
        this.#counted.textBytes += utf8Length(event.text);
        this.#join("text", event.text);
        return this.#inTurn(event);
      case "reasoning-delta":
        this.#count(event.text);
        this.#join("reasoning", event.text);
        return this.#inTurn(event);
      case "reasoning-signature": {
        const { signature, maker = this.#loop.format } = event;
        const last = this.parts.at(-1);
        if (last?.type === "reasoning") this.parts[this.parts.length - 1] = { ...last, signature, maker };
        else this.parts.push({ type: "reasoning", text: "", signature, maker });
        return event;
      }
      case "redacted-reasoning":
      case "provider":
        this.parts.push(event);
        return event;
      case "annotation":
        return { ...event, annotation: this.#inAnswer(event.annotation) };
      default:
        return event;
    }
  }

  /** Blocks of two turns are never the same block. */
  #inTurn<Event extends { readonly block?: string }>(event: Event): Event {
    return event.block === undefined ? event : { ...event, block: `${this.#number}.${event.block}` };
  }

  /** Moves the places of citations from the text of the turn to the text of the answer. */
  #inAnswer(annotation: Annotation): Annotation {
    return this.#textStart === 0 ? annotation : movedBy(annotation, this.#textStart);
  }

  #join(type: "text" | "reasoning", text: string): void {
    const last = this.parts.at(-1);
    if (last?.type === type && last.signature === undefined)
      this.parts[this.parts.length - 1] = { ...last, text: last.text + text };
    else this.parts.push(type === "reasoning" ? { type, text, maker: this.#loop.format } : { type, text });
  }

  /** Counts a text of the model's. Throws `backend_failed` for a turn that does not end. */
  #count(text: string): void {
    this.#counted.chars += text.length;
    if (this.#counted.chars + this.runs.length * RUN_CHARS > this.#maxChars)
      throw backendFailed("The model backend's answer does not end.");
  }

  #begin({ id, signature, maker }: Signed & { readonly id: string }, json?: string): undefined {
    const run: Run = {
      id,
      signed: given({ signature, maker }),
      json: "",
      code: undefined,
    };
    this.runs.push(run);
    this.#count(this.#name);
    this.#open.set(id, run);
    if (json !== undefined) {
      this.#extend(run, json);
      this.#end(run, {});
    }
  }

  #extend(run: Run, json: string): void {
    this.#count(json);
    run.json += json;
  }

  #end(run: Run, { signature, maker }: Signed): void {
    const { id } = run;
    this.#open.delete(id);
    const input = this.#arguments.find(run.json) ?? {};
    if (typeof input["code"] === "string") run.code = input["code"];
    const signed = signature === undefined ? run.signed : given({ signature, maker });
    this.parts.push({ type: "tool-call", id, name: this.#name, input, ...signed });
  }
}
