/** The conversation of the loops: two questions, six answers, three parallel tool calls in some, thoughts and texts before the calls. */

import type { JsonObject } from "../../src/model/json.ts";

export interface Call {
  readonly name: string;
  readonly args: JsonObject;
}

/** An answer of a model, in no format. */
export interface Turn {
  readonly thought: string;
  /** Hides the thought, in formats that can encrypt it. */
  readonly isRedacted?: boolean;
  readonly text?: string;
  readonly calls: readonly Call[];
}

/** The content of a request, as a validator has read it. */
export interface Heard {
  /** Texts, calls and results in their order. Thoughts are not among them. */
  readonly facts: readonly string[];
  /** The number of answers in the history. */
  readonly steps: number;
  /** The number of answers since the last text of the user. */
  readonly stepsOfTurn: number;
  readonly tools: readonly OfferedTool[];
  /** The schema of the answer, if the request names one. */
  readonly schema?: unknown;
}

export interface OfferedTool {
  readonly name: string;
  readonly schema: unknown;
}

/** Chooses the next answer. Throws for a history that is not the expected one. */
export type Script = (heard: Heard) => Turn;

/** The tools of the loops, which all clients offer. */
export const TOOLS: readonly {
  readonly name: string;
  readonly description: string;
  readonly schema: {
    readonly type: "object";
    readonly properties: Readonly<Record<string, { readonly type: "string" }>>;
    readonly required: string[];
  };
}[] = ["get_weather", "get_tides", "get-time"].map((name) => ({
  name,
  description: `Answers ${name}.`,
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
}));

export const QUESTIONS: readonly string[] = ["Plan a day in Oslo.", "And one in Bergen?"];

const calls = (city: string): Call[] => TOOLS.map(({ name }) => ({ name, args: { city } }));

/** The answers. The fourth ends the first question's turn, and the fifth begins the second's. */
export const TURNS: readonly Turn[] = [
  { thought: "All three tools know Oslo.\nAsk them.", calls: calls("Oslo") },
  { thought: "The fjord has a time of its own.", text: "One moment more.", calls: calls("Drøbak").slice(2) },
  {
    thought: 'Another "harbour", to compare.',
    isRedacted: true,
    text: "Now the coast.",
    calls: calls("Moss"),
  },
  { thought: "Enough is known.", text: "Walk in the morning, swim at noon.", calls: [] },
  { thought: "The same for Bergen.", calls: calls("Bergen") },
  { thought: "Rain, of course.", text: "Take an umbrella.", calls: [] },
];

/** The texts that end the two questions' turns. */
export const ENDS: readonly string[] = TURNS.flatMap(({ text, calls }) => (calls.length === 0 ? (text ?? "") : []));

/** Runs a tool. */
export const resultOf = ({ name, args }: Call): string => `${name} of ${args["city"] as string} is fine`;

export const userFact = (text: string): string => `user: ${text}`;
export const textFact = (text: string): string => `model: ${text}`;
export const callFact = ({ name, args }: Call): string => `call: ${name} ${canonical(args)}`;

/** @param result The whole result in JSON. A format may wrap the text, so that only its presence is compared. */
export function resultFact(call: Call, result: unknown): string {
  const json = JSON.stringify(result) ?? "";
  return `result: ${json.includes(resultOf(call)) ? resultOf(call) : json}`;
}

/** Writes JSON with the members of objects in the order of their names. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  );

/** Returns the facts of a history with as many answers. */
function factsOf(steps: number): string[] {
  const questions = QUESTIONS.values();
  const facts = [userFact(questions.next().value ?? "")];
  for (const { text, calls } of TURNS.slice(0, steps)) {
    if (text !== undefined) facts.push(textFact(text));
    facts.push(...calls.map(callFact), ...calls.map((call) => resultFact(call, resultOf(call))));
    if (calls.length === 0) facts.push(userFact(questions.next().value ?? ""));
  }
  return facts;
}

/** Answers with the turns in their order, when the history holds all facts so far. */
export const sixTurns: Script = ({ facts, steps, tools }) => {
  const expected = factsOf(steps).join("\n");
  if (facts.join("\n") !== expected) throw new Error(`The history is\n${facts.join("\n")}\nand not\n${expected}`);
  const names = tools.map(({ name }) => name).toString();
  if (names !== TOOLS.map(({ name }) => name).toString()) throw new Error(`The tools are ${names}.`);
  const turn = TURNS[steps];
  if (!turn) throw new Error(`The history has ${steps} answers.`);
  return turn;
};
