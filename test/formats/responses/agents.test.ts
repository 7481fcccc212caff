/** Requests of coding agents, recorded in the middle of a session: what the backend is asked, and what the agents get. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Part } from "../../../src/index.ts";
import { eventsIn, expectWhole, having, openStage, plays } from "./stage.ts";

const FOLDER = join(import.meta.dirname, "../../recordings/responses");
const recorded = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(FOLDER, `${name}.request.json`), "utf8")) as Record<string, unknown>;

/** A part in one word, and the name of the tool that it calls. */
const told = (part: Part): string => (part.type === "tool-call" ? `call ${part.name}` : part.type);

const AGENTS = [
  {
    name: "codex",
    tools: [
      "exec_command",
      "view_image",
      "multi_agent_v1__close_agent",
      "multi_agent_v1__resume_agent",
      "multi_agent_v1__send_input",
      "web_search",
    ],
    turns: [
      "user: text, text",
      "assistant: reasoning, text, call exec_command, call exec_command",
      "user: tool-result, tool-result",
      "assistant: reasoning, call exec_command",
      "user: tool-result",
      "assistant: reasoning, text, call exec_command, call multi_agent_v1__close_agent",
      "user: tool-result, tool-result",
    ],
    unsupported: ["prompt_cache_key", "client_metadata"],
  },
  {
    name: "codex-code-mode",
    tools: [
      "functions__exec",
      "functions__wait",
      "functions__request_user_input",
      "collaboration__list_agents",
      "collaboration__wait_agent",
    ],
    turns: [
      "user: text, text",
      "assistant: reasoning, text, call functions__exec",
      "user: tool-result",
      "assistant: reasoning, call functions__exec",
      "user: tool-result",
      "assistant: reasoning, text, call functions__exec, call collaboration__list_agents",
      "user: tool-result, tool-result",
    ],
    unsupported: ["prompt_cache_key", "client_metadata", "reasoning.context", "text.verbosity"],
  },
  {
    name: "opencode",
    tools: ["apply_patch", "bash", "read"],
    turns: [
      "user: text",
      "assistant: reasoning, text, call read, call bash",
      "user: tool-result, tool-result",
      "assistant: reasoning, call apply_patch",
      "user: tool-result",
      "assistant: reasoning, text, call bash",
      "user: tool-result",
    ],
    unsupported: ["prompt_cache_key"],
  },
] as const;

describe("a session", () => {
  it.each(AGENTS)("of $name is understood", async ({ name, tools, turns, unsupported }) => {
    const { ask, received } = openStage(plays("All done."));
    const response = await ask(recorded(name));
    expectWhole(eventsIn(await response.text()));
    const [request] = received;
    const names = request?.tools.map((tool) => ("name" in tool ? tool.name : undefined) ?? nameIn(tool));
    expect(names).toEqual(tools);
    expect(request?.messages.map(({ role, parts }) => `${role}: ${parts.map(told).join(", ")}`)).toEqual(turns);
    expect(request?.native?.unsupported?.().toSorted()).toEqual(unsupported.toSorted());
    const seals = request?.messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "reasoning" ? `${part.maker}: ${part.signature}` : [])),
    );
    expect(seals).toEqual(["acme: c2VhbGVkLTA=", "acme: c2VhbGVkLTE=", "acme: c2VhbGVkLTI="]);
  });
});

const nameIn = (tool: object): unknown =>
  "definition" in tool ? (tool.definition as { readonly type: string }).type : undefined;

const LOOK = { type: "function", name: "look", parameters: { type: "object" }, strict: false };
const RUN = { type: "custom", name: "run", description: "Runs." };
const SPACE = { type: "namespace", name: "sea", description: "About the sea.", tools: [LOOK, RUN] };
const CALLS = plays(
  { type: "tool-call", id: "a", name: "sea__look", input: { x: 1 } },
  { type: "tool-call", id: "b", name: "sea__run", input: { input: "go" } },
  { type: "tool-call", id: "c", name: "look", input: {} },
);

describe("a tool in a namespace", () => {
  const { ask, received } = openStage(CALLS);

  it.each([
    ["of the request", { tools: [LOOK, SPACE] }],
    [
      "that an item adds",
      {
        tools: [LOOK],
        input: [
          { type: "additional_tools", role: "developer", tools: [SPACE] },
          { role: "user", content: "Hi" },
        ],
      },
    ],
  ])("%s has both names for the backend, and its calls both names for the caller", async (_name, changes) => {
    const complete = (await (await ask(having(changes))).json()) as { readonly output: unknown[] };
    const streamed = expectWhole(eventsIn(await (await ask(having({ ...changes, stream: true }))).text()));
    expect(complete.output).toMatchObject([
      { type: "function_call", call_id: "a", name: "look", namespace: "sea", arguments: '{"x":1}' },
      { type: "custom_tool_call", call_id: "b", name: "run", namespace: "sea", input: "go" },
      { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
    ]);
    expect(complete.output[2]).not.toHaveProperty("namespace");
    expect(streamed.output.map((item) => ({ ...item, id: "" }))).toEqual(
      complete.output.map((item) => ({ ...(item as object), id: "" })),
    );
    expect(received.at(-1)?.tools).toMatchObject([
      { type: "function", name: "look" },
      { type: "function", name: "sea__look", description: "About the sea." },
      { type: "function", name: "sea__run", description: "Runs.", custom: {} },
    ]);
    expect(received.at(-1)?.messages).toHaveLength(1);
  });

  it.each([
    [{ type: "function", name: "look" }, "sea__look"],
    [{ type: "custom", name: "run" }, "sea__run"],
    [{ type: "custom", name: "run", namespace: "sea" }, "sea__run"],
  ])("can be chosen: %j", async (tool_choice, name) => {
    await ask(having({ tools: [SPACE], tool_choice }));
    expect(received.at(-1)?.toolChoice).toEqual({ type: "tool", name, parallel: true });
    const among = { type: "allowed_tools", mode: "auto", tools: [tool_choice] };
    await ask(having({ tools: [SPACE], tool_choice: among }));
    expect(received.at(-1)?.toolChoice).toEqual({ type: "auto", names: [name], parallel: true });
  });

  it("comes after a tool of its own name outside", async () => {
    await ask(having({ tools: [SPACE, LOOK], tool_choice: { type: "function", name: "look" } }));
    expect(received.at(-1)?.toolChoice).toEqual({ type: "tool", name: "look", parallel: true });
  });
});

it("tools that items add count toward the limits of schemas", async () => {
  const { ask, received } = openStage(plays("Hi"), { limits: { maxSchemaValues: 20 } });
  const properties = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`x${index}`, { type: "string" }]));
  const tools = [{ ...LOOK, parameters: { type: "object", properties } }];
  const input = [
    { type: "additional_tools", role: "developer", tools },
    { role: "user", content: "Hi" },
  ];
  const response = await ask(having({ input }));
  expect([response.status, await response.json()]).toMatchObject([400, { error: { param: "input" } }]);
  expect(received).toEqual([]);
});
