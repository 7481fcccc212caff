/**
 * Runs the code of models that cannot run code themselves: gives the model a function in place of the tool, runs its calls with the gateway's
 * code runner, and asks the model again with the results. The caller sees code and results, as from a provider that runs code.
 */

import { argumentsIn, CODE_TOOL, CUT_SHORT } from "../../formats/shared/tools.ts";
import type { ChatEvent, FinishEvent, NativeEvent } from "../../model/chat-event.ts";
import type { ChatMessage, ChatRequest, Part, ToolChoice } from "../../model/chat-request.ts";
import { JsonBudget, type JsonLimits } from "../../model/json.ts";
import { sumOfUsages, type Usage } from "../../model/usage.ts";
import type { CodeResult, CodeToRun } from "../../ports/code-runner.ts";
import type { CallContext } from "../../ports/model-backend.ts";

/** The most pieces of code of one turn. Further calls are answered with an error. */
const MAX_RUNS_A_TURN = 16;

/** A token has about so many characters. Used where an upstream does not count. */
const CHARS_A_TOKEN = 4;

type Neutral = Exclude<ChatEvent, NativeEvent>;
type Ask = (request: ChatRequest, call: CallContext) => AsyncIterable<ChatEvent>;

/** The parts of a loop that do not change. */
export interface CodeLoop {
  readonly ask: Ask;
  readonly runCode: (code: CodeToRun) => Promise<CodeResult>;
  readonly maxTurns: number;
  readonly json: JsonLimits | undefined;
  /** The wire format of the upstream, which makes the signatures of its reasoning. */
  readonly format: string;
}

/**
 * Answers a request whose model may run code. A turn that also calls a function of the caller's own is the last one: its code is run and
 * shown, and the caller goes on with the result of the function. The output limit holds for all turns together, and each turn is counted.
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
    const turn = new Turn(loop, name, number, counted);
    for await (const event of loop.ask(asked, call)) {
      const passed = turn.pass(event);
      if (passed) yield passed;
    }
    const { finish, runs } = turn;
    if (!finish) return;
    // A turn that was cut short may hold half a program. A model that may call nothing more has ended its answer.
    if (runs.length === 0 || CUT_SHORT.has(finish.reason) || number > loop.maxTurns)
      return yield counted.finish(
        runs.length > 0 && finish.reason === "tool-calls" ? { ...finish, reason: "stop" } : finish,
      );
    const results: Part[] = [];
    for (const [index, run] of runs.entries()) {
      const code = index < MAX_RUNS_A_TURN ? run.code(loop.json) : undefined;
      const result =
        code === undefined
          ? { outcome: "failed" as const, output: "The call needs one argument: code, a text." }
          : await loop.runCode({ language: "python", code });
      const { outcome, output } = result;
      if (code !== undefined) {
        yield { type: "code", id: run.id, language: "python", code };
        yield { type: "code-result", id: run.id, outcome, output };
      }
      const text = `${outcome === "ok" ? "" : `The code has ${outcome === "failed" ? "failed" : "taken too long"}.\n`}${output}`;
      results.push({
        type: "tool-result",
        callId: run.id,
        name,
        parts: [{ type: "text", text: text === "" ? "The code has printed nothing." : text }],
        ...(outcome !== "ok" && { isError: true }),
      });
    }
    const left = request.maxOutputTokens - counted.outputTokens;
    if (turn.callsOthers || left < 1) {
      return yield counted.finish(turn.callsOthers ? finish : { ...finish, reason: "length" });
    }
    counted.nextTurn();
    const choice: ToolChoice = number < loop.maxTurns ? afterwards(asked.toolChoice) : { type: "none" };
    const messages: ChatMessage[] = [
      ...asked.messages,
      { role: "assistant", parts: turn.parts },
      { role: "user", parts: results },
    ];
    asked = { ...asked, messages, toolChoice: choice, maxOutputTokens: left };
  }
}

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

/** Returns the choice after code was run: a demand for a tool is met then. */
const afterwards = (choice: ToolChoice | undefined): ToolChoice =>
  choice && choice.type !== "none"
    ? { type: "auto", parallel: choice.parallel, ...("names" in choice && choice.names && { names: choice.names }) }
    : { type: "auto", parallel: true };

/** A call of the function. */
class Run {
  readonly id: string;
  json = "";

  constructor(id: string) {
    this.id = id;
  }

  /** Returns the code; undefined for arguments without code. */
  code(limits: JsonLimits | undefined): string | undefined {
    const code = argumentsIn(this.json, new JsonBudget(limits))?.["code"];
    return typeof code === "string" ? code : undefined;
  }
}

/** The usage of all turns. */
class Counted {
  #before: Partial<Usage> = {};
  #turn: Partial<Usage> = {};
  #outputBefore = 0;
  /** The characters of the turn's output, for upstreams that do not count. */
  chars = 0;

  /** Returns the usage of all turns so far. */
  learn(usage: Partial<Usage> | undefined): Partial<Usage> {
    this.#turn = { ...this.#turn, ...usage };
    return sumOfUsages(this.#before, this.#turn);
  }

  get outputTokens(): number {
    return this.#outputBefore + (this.#turn.outputTokens ?? Math.ceil(this.chars / CHARS_A_TOKEN));
  }

  nextTurn(): void {
    this.#outputBefore = this.outputTokens;
    this.#before = sumOfUsages(this.#before, this.#turn);
    this.#turn = {};
    this.chars = 0;
  }

  finish(finish: FinishEvent): FinishEvent {
    const usage = this.learn(finish.usage);
    return Object.keys(usage).length > 0 ? { ...finish, usage } : finish;
  }
}

/** One answer of the model. */
class Turn {
  /** The assistant's turn, as it goes back to the model. */
  readonly parts: Part[] = [];
  readonly runs: Run[] = [];
  finish: FinishEvent | undefined;
  callsOthers = false;
  readonly #loop: CodeLoop;
  readonly #name: string;
  readonly #number: number;
  readonly #counted: Counted;
  readonly #open: Map<string, Run> = new Map();

  constructor(loop: CodeLoop, name: string, number: number, counted: Counted) {
    this.#loop = loop;
    this.#name = name;
    this.#number = number;
    this.#counted = counted;
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

  #pass(event: Neutral): Neutral | undefined {
    switch (event.type) {
      case "start": {
        const usage = this.#counted.learn(event.usage);
        return this.#number === 1 ? { ...event, usage } : { type: "usage", usage };
      }
      case "usage":
        return { ...event, usage: this.#counted.learn(event.usage) };
      case "finish":
        this.finish = event;
        this.#counted.learn(event.usage);
        return undefined;
      case "tool-call":
        if (event.name === this.#name) return this.#begin(event.id, event, JSON.stringify(event.input));
        this.callsOthers = true;
        return event;
      case "tool-call-start":
        if (event.name === this.#name) return this.#begin(event.id, event);
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
        this.#counted.chars += event.text.length;
        this.#join("text", event.text);
        return this.#inTurn(event);
      case "reasoning-delta":
        this.#counted.chars += event.text.length;
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
        this.parts.push(event);
        return event;
      default:
        return event;
    }
  }

  /** Blocks of two turns are never the same block. */
  #inTurn<Event extends { readonly block?: string }>(event: Event): Event {
    return event.block === undefined ? event : { ...event, block: `${this.#number}.${event.block}` };
  }

  #join(type: "text" | "reasoning", text: string): void {
    const last = this.parts.at(-1);
    if (last?.type === type && last.signature === undefined)
      this.parts[this.parts.length - 1] = { ...last, text: last.text + text };
    else this.parts.push(type === "reasoning" ? { type, text, maker: this.#loop.format } : { type, text });
  }

  #begin(id: string, signed: { readonly signature?: string; readonly maker?: string }, json?: string): undefined {
    const run = new Run(id);
    this.runs.push(run);
    this.#open.set(id, run);
    if (json !== undefined) {
      this.#extend(run, json);
      this.#end(run, signed);
    }
  }

  #extend(run: Run, json: string): void {
    run.json += json;
    this.#counted.chars += json.length;
  }

  #end(run: Run, { signature, maker }: { readonly signature?: string; readonly maker?: string }): void {
    this.#open.delete(run.id);
    const input = argumentsIn(run.json, new JsonBudget(this.#loop.json)) ?? {};
    this.parts.push({
      type: "tool-call",
      id: run.id,
      name: this.#name,
      input,
      ...(signature !== undefined && { signature }),
      ...(maker !== undefined && { maker }),
    });
  }
}
