/**
 * A session as Codex holds it, before every strict upstream: the tools stand in namespaces and in an item of the input, one of them takes a
 * text, nothing is stored, and no summary of the reasoning is asked for.
 */

import { expect, it } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import type { Script } from "./script.ts";
import { KEY, MAKER_NAMES, relayedMaker, serveGateway } from "./stage.ts";

const EXEC = { type: "custom", name: "exec", description: "Runs a program.", format: { type: "text" } };
const LIST = {
  type: "function",
  name: "list_agents",
  description: "Lists the agents.",
  strict: false,
  parameters: { type: "object", properties: {}, additionalProperties: false },
};
const TOOLS = {
  type: "additional_tools",
  role: "developer",
  tools: [
    { type: "namespace", name: "functions", description: "", tools: [EXEC] },
    { type: "namespace", name: "collaboration", description: "For sub-agents.", tools: [LIST] },
  ],
};

const message = (role: string, text: string): JsonObject => ({
  type: "message",
  role,
  content: [{ type: "input_text", text }],
});

const PROGRAM = 'text(await tools.read("a \\ b"));\n';
const END = "All is done.";

/** Two steps with calls, and an end. */
const script: Script = ({ facts, stepsOfTurn, tools }) => {
  expect(tools.map(({ name }) => name)).toEqual(["functions__exec", "collaboration__list_agents"]);
  const results = facts.filter((fact) => fact.startsWith("result: ")).join("\n");
  const [first, second] = ["The first result", "The second result"].map((text) => results.includes(text));
  expect([first, second]).toEqual([stepsOfTurn > 0, stepsOfTurn > 1]);
  const exec = { name: "functions__exec", args: { input: PROGRAM } };
  if (stepsOfTurn === 0) return { thought: "Run it.", calls: [exec] };
  if (stepsOfTurn === 1)
    return { thought: "And list.", text: "Now both.", calls: [exec, { name: "collaboration__list_agents", args: {} }] };
  return { thought: "Nothing is left.", text: END, calls: [] };
};

interface Item {
  readonly type: string;
  readonly call_id: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly input?: string;
  readonly arguments?: string;
  readonly content?: readonly { readonly text: string }[];
}

it.each(MAKER_NAMES)("before %s", async (name) => {
  await using maker = await relayedMaker(name, { script });
  await using gateway = await serveGateway(maker.backend);
  const input: unknown[] = [TOOLS, message("developer", "You are an agent."), message("user", "Work.")];
  const called: string[] = [];
  let last: Item | undefined;
  for (const result of ["The first result", "The second result", "None"]) {
    const response = await fetch(`${gateway.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: name,
        input,
        tool_choice: "auto",
        parallel_tool_calls: true,
        store: false,
        prompt_cache_key: "session",
        ...(name !== "responses-without-thinking" && {
          include: ["reasoning.encrypted_content"],
          reasoning: { effort: "low" },
        }),
      }),
    });
    const { output } = (await response.json()) as { readonly output: readonly Item[] };
    expect(maker.upstream.violations).toEqual([]);
    for (const item of output) {
      if (item.type !== "reasoning") last = item;
      input.push(item);
    }
    for (const { type, call_id, ...call } of output) {
      if (!type.endsWith("_call")) continue;
      called.push(`${call.namespace}.${call.name} ${type === "custom_tool_call" ? call.input : call.arguments}`);
      input.push({ type: `${type}_output`, call_id, output: [{ type: "input_text", text: result }] });
    }
  }
  const exec = `functions.exec ${PROGRAM}`;
  expect(called).toEqual([exec, exec, "collaboration.list_agents {}"]);
  expect(last?.content?.map(({ text }) => text)).toEqual([END]);
  expect(maker.upstream.requests).toHaveLength(3);
});
