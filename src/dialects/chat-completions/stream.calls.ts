/** The tool calls of one choice on their way out: clients take a call for whole once the next begins, so they go one by one. */

import { AnsweredArguments, ToolCalls } from "../shared/tool-calls.ts";
import type { WireCall, WireCallDelta } from "./answer.ts";

/** A call that has begun: written at once when it is first in line, kept back until then. */
interface OpenCall {
  readonly index: number;
  /** What the call begins with. */
  readonly head: WireCall;
  readonly kept: string[];
  /** Its arguments so far. */
  readonly json: string[];
  ended: boolean;
}

export class CallWriter {
  readonly #line: OpenCall[] = [];
  readonly #calls: ToolCalls<OpenCall> = new ToolCalls();
  readonly #arguments = new AnsweredArguments();
  #begun = 0;
  #written: WireCallDelta[] = [];

  /** What was written since the last time. */
  take(): WireCallDelta[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  begin(id: string, name: string): void {
    this.#open(id, { id, type: "function", function: { name, arguments: "" } });
  }

  /** A call of this format's own, whole. */
  whole(id: string, call: WireCall): void {
    const open = this.#open(id, call);
    open.ended = true;
    this.#advance();
  }

  add(id: string, json: string): void {
    const call = this.#calls.open(id);
    call.json.push(json);
    if (json !== "") this.#write(call, json);
  }

  end(id: string): void {
    this.#end(this.#calls.get(id));
  }

  /** Ends all that have not. Those of an answer that was cut short may be left half said. */
  endAll(cutShort: boolean): void {
    for (let first = this.#line[0]; first; first = this.#line[0]) this.#end(first, cutShort);
  }

  #end(call: OpenCall, cutShort = false): void {
    if (!call.ended) {
      const json = call.json.join("");
      if (!cutShort) this.#arguments.parse(json);
      // Clients read the arguments as JSON, which an empty text is not.
      if (json.trim() === "") this.#write(call, "{}");
    }
    call.ended = true;
    this.#advance();
  }

  #advance(): void {
    while (this.#line[0]?.ended) {
      this.#line.shift();
      const next = this.#line[0];
      if (next) this.#start(next);
    }
  }

  #open(id: string, head: WireCall): OpenCall {
    const call = this.#calls.begin(id, { index: this.#begun, head, kept: [], json: [], ended: false });
    this.#begun++;
    this.#line.push(call);
    if (this.#line[0] === call) this.#start(call);
    return call;
  }

  #start(call: OpenCall): void {
    this.#written.push({ index: call.index, ...call.head });
    for (const json of call.kept.splice(0)) this.#write(call, json);
  }

  #write(call: OpenCall, json: string): void {
    if (this.#line[0] === call) this.#written.push({ index: call.index, function: { arguments: json } });
    else call.kept.push(json);
  }
}
