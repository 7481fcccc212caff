/** The fields of requests of every format, relayed to upstreams of every format: no secret is sent in any of them. */

import { describe, expect, it } from "vitest";
import type { HookCall, HookRequest } from "../../src/index.ts";
import { redactor } from "../../src/redactor/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { opened } from "../pipeline/bench.ts";

const FORMATS: readonly RelayFormat[] = ["messages", "chat-completions", "responses", "generate-content"];
const find = { email: /[\w.]+@[\w.]+\w/ };

/** Returns a secret that tells where it stood. */
const s = (where: string): string => `${where}@secret.org`;

const fn = (name: string) => ({
  type: "function",
  name,
  description: s("d"),
  parameters: { type: "object", properties: {} },
});
/** Requests with a secret in each field that may have a text. Those without one in a known field are sent in the caller's own form. */
const REQUESTS: Readonly<Record<string, readonly [path: string, body: object]>> = {
  messages: [
    "/v1/messages",
    {
      model: "any",
      max_tokens: 500,
      metadata: { user_id: s("user_id") },
      system: s("system"),
      stop_sequences: [s("stop")],
      mcp_servers: [{ type: "url", url: "https://mcp.example", name: s("mcpname"), authorization_token: s("token") }],
      container: s("container"),
      tools: [
        {
          name: "t",
          description: s("tool"),
          input_schema: {
            type: "object",
            properties: { [s("prop")]: { type: "string", description: s("propd"), enum: [s("enum")] } },
          },
          input_examples: [{ a: s("example"), [s("examplekey")]: 1, name: s("examplename") }],
        },
        {
          type: "web_search_20250305",
          name: "web_search",
          allowed_domains: [s("domain")],
          user_location: { type: "approximate", city: s("city") },
        },
      ],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: s("text") },
            {
              type: "document",
              title: s("title"),
              context: s("context"),
              source: { type: "text", media_type: "text/plain", data: s("doc") },
            },
            {
              type: "search_result",
              source: s("srsource"),
              title: s("srtitle"),
              content: [{ type: "text", text: s("srtext") }],
              citations: { enabled: true },
            },
          ],
        },
        {
          role: "assistant",
          content: [
            {
              type: "text",
              text: s("atext"),
              citations: [
                {
                  type: "char_location",
                  cited_text: s("cited"),
                  document_index: 0,
                  document_title: s("doctitle"),
                  start_char_index: 0,
                  end_char_index: 2,
                },
              ],
            },
            {
              type: "server_tool_use",
              id: "srvtoolu_1",
              name: "web_search",
              input: { query: s("query"), name: s("inputname"), url: s("inputurl"), [s("inputkey")]: 1 },
            },
            {
              type: "web_search_tool_result",
              tool_use_id: "srvtoolu_1",
              content: [
                {
                  type: "web_search_result",
                  url: "https://x",
                  title: s("wtitle"),
                  encrypted_content: "abc",
                  page_age: null,
                },
              ],
            },
            {
              type: "mcp_tool_use",
              id: "mcptoolu_1",
              name: "m",
              server_name: "srv",
              input: { name: s("mcpinputname"), data: s("mcpinputdata"), [s("mcpinputkey")]: 2 },
            },
            {
              type: "mcp_tool_result",
              tool_use_id: "mcptoolu_1",
              is_error: false,
              content: [{ type: "text", text: s("mcpresult") }],
            },
            { type: "tool_use", id: "toolu_1", name: "t", input: { name: s("tname"), [s("tkey")]: s("tval") } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "toolu_1",
              content: [
                { type: "text", text: s("tr") },
                {
                  type: "search_result",
                  source: s("trs"),
                  title: s("trt"),
                  content: [{ type: "text", text: s("trc") }],
                },
              ],
            },
          ],
        },
      ],
    },
  ],
  "messages metadata": [
    "/v1/messages",
    { model: "any", max_tokens: 50, messages: [{ role: "user", content: "hi" }], metadata: { [s("metakey")]: 1 } },
  ],
  "messages unknown": [
    "/v1/messages",
    { model: "any", max_tokens: 50, messages: [{ role: "user", content: "hi" }], later: { name: s("latername") } },
  ],
  "chat-completions": [
    "/v1/chat/completions",
    {
      model: "any",
      user: s("user"),
      stop: s("stop"),
      safety_identifier: s("safety"),
      prompt_cache_key: s("cachekey"),
      metadata: { name: s("metaname"), [s("metakey")]: "x", url: s("metaurl") },
      prediction: { type: "content", content: s("prediction") },
      web_search_options: { user_location: { type: "approximate", approximate: { city: s("city") } } },
      response_format: {
        type: "json_schema",
        json_schema: {
          name: "x",
          description: s("rfdesc"),
          schema: { type: "object", properties: { [s("rfprop")]: { type: "string", description: s("rfpd") } } },
        },
      },
      tools: [
        {
          type: "function",
          function: {
            name: "t",
            description: s("tool"),
            parameters: { type: "object", properties: { [s("prop")]: { type: "string" } } },
          },
        },
        {
          type: "custom",
          custom: {
            name: "c",
            description: s("custom"),
            format: { type: "grammar", grammar: { syntax: "lark", definition: `start: "${s("grammar")}"` } },
          },
        },
      ],
      messages: [
        { role: "system", content: s("system") },
        { role: "developer", name: s("devname"), content: s("developer") },
        {
          role: "user",
          name: s("username"),
          content: [
            { type: "text", text: s("text") },
            { type: "file", file: { filename: s("filename"), file_data: "data:application/pdf;base64,JVBERi0xLjQK" } },
          ],
        },
        {
          role: "assistant",
          content: s("acontent"),
          refusal: s("refusal"),
          name: s("aname"),
          tool_calls: [
            {
              id: "call_1",
              type: "function",
              function: { name: "t", arguments: JSON.stringify({ [s("akey")]: s("aval") }) },
            },
            { id: "call_2", type: "custom", custom: { name: "c", input: s("cinput") } },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: s("tr") },
        { role: "tool", tool_call_id: "call_2", content: [{ type: "text", text: s("tr2") }] },
      ],
    },
  ],
  "chat metadata": [
    "/v1/chat/completions",
    {
      model: "any",
      messages: [{ role: "user", content: "hi" }],
      metadata: { name: s("metaname"), [s("metakey")]: "x" },
    },
  ],
  "chat grammar": [
    "/v1/chat/completions",
    {
      model: "any",
      messages: [{ role: "user", content: "hi" }],
      tools: [
        {
          type: "custom",
          custom: {
            name: "c",
            format: { type: "grammar", grammar: { syntax: "lark", definition: `start: "${s("grammar")}"` } },
          },
        },
      ],
    },
  ],
  "chat rfname": [
    "/v1/chat/completions",
    {
      model: "any",
      messages: [{ role: "user", content: "hi" }],
      response_format: {
        type: "json_schema",
        json_schema: { name: s("rfname"), description: s("rfdesc"), schema: { type: "object" } },
      },
    },
  ],
  "chat badargs": [
    "/v1/chat/completions",
    {
      model: "any",
      messages: [
        { role: "user", content: "hi" },
        {
          role: "assistant",
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "t", arguments: `{"a": "${s("badargs")}` } },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "x" },
      ],
    },
  ],
  responses: [
    "/v1/responses",
    {
      model: "any",
      user: s("user"),
      instructions: s("instructions"),
      metadata: { name: s("metaname"), [s("metakey")]: "x" },
      prompt_cache_key: s("cachekey"),
      safety_identifier: s("safety"),
      store: false,
      text: {
        format: {
          type: "json_schema",
          name: "x",
          description: s("rfdesc"),
          schema: { type: "object", properties: { [s("rfprop")]: { type: "string" } } },
        },
      },
      tools: [
        fn("t"),
        {
          type: "custom",
          name: "c",
          description: s("custom"),
          format: { type: "grammar", syntax: "lark", definition: s("grammar") },
        },
        {
          type: "mcp",
          server_label: s("label"),
          server_url: "https://mcp.example",
          headers: { Authorization: s("auth"), name: s("hname") },
          require_approval: "never",
          server_description: s("sdesc"),
        },
        { type: "web_search", user_location: { type: "approximate", city: s("city") } },
        { type: "file_search", vector_store_ids: ["vs_1"], filters: { type: "eq", key: s("fkey"), value: s("fval") } },
      ],
      input: [
        { role: "developer", content: s("developer") },
        {
          role: "user",
          content: [
            { type: "input_text", text: s("text") },
            { type: "input_file", filename: s("filename"), file_data: "data:application/pdf;base64,JVBERi0xLjQK" },
          ],
        },
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: s("summary") }] },
        {
          type: "message",
          role: "assistant",
          id: "msg_1",
          status: "completed",
          content: [
            {
              type: "output_text",
              text: s("otext"),
              annotations: [
                { type: "url_citation", url: "https://x", title: s("atitle"), start_index: 0, end_index: 1 },
              ],
            },
            { type: "refusal", refusal: s("refusal") },
          ],
        },
        { type: "function_call", call_id: "call_1", name: "t", arguments: JSON.stringify({ [s("akey")]: s("aval") }) },
        { type: "function_call_output", call_id: "call_1", output: s("fout") },
        { type: "custom_tool_call", call_id: "call_2", name: "c", input: s("cinput") },
        { type: "custom_tool_call_output", call_id: "call_2", output: [{ type: "input_text", text: s("cout") }] },
        {
          type: "mcp_call",
          id: "mcp_1",
          name: "m",
          server_label: "l",
          arguments: JSON.stringify({ a: s("mcpargs") }),
          output: s("mcpout"),
        },
        { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: s("wsq") } },
        {
          type: "file_search_call",
          id: "fs_1",
          status: "completed",
          queries: [s("fsq")],
          results: [
            {
              file_id: "f",
              filename: s("fsname"),
              text: s("fstext"),
              attributes: { name: s("attrname"), [s("attrkey")]: "v" },
            },
          ],
        },
        {
          type: "code_interpreter_call",
          id: "ci_1",
          status: "completed",
          container_id: "c",
          code: s("code"),
          outputs: [{ type: "logs", logs: s("logs") }],
        },
        {
          type: "local_shell_call",
          id: "ls_1",
          call_id: "call_3",
          status: "completed",
          action: { type: "exec", command: ["echo", s("cmd")], env: { [s("envkey")]: s("env"), name: s("envname") } },
        },
        { type: "local_shell_call_output", id: "ls_1", call_id: "call_3", output: s("lsout") },
        { type: "image_generation_call", id: "ig_1", status: "completed", result: "aGk=", revised_prompt: s("rp") },
      ],
    },
  ],
  "responses metadata": [
    "/v1/responses",
    { model: "any", store: false, input: "hi", metadata: { name: s("metaname"), [s("metakey")]: "x" } },
  ],
  "generate-content": [
    "/v1beta/models/any:generateContent",
    {
      systemInstruction: { parts: [{ text: s("system") }] },
      labels: { [s("labelkey")]: s("label"), name: s("labelname") },
      generationConfig: {
        stopSequences: [s("stop")],
        responseMimeType: "application/json",
        responseSchema: { type: "OBJECT", description: s("rsd"), properties: { [s("rsp")]: { type: "STRING" } } },
        speechConfig: {
          multiSpeakerVoiceConfig: {
            speakerVoiceConfigs: [
              { speaker: s("speaker"), voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
            ],
          },
        },
      },
      tools: [
        {
          functionDeclarations: [
            {
              name: "t",
              description: s("tool"),
              parametersJsonSchema: { type: "object", properties: { [s("prop")]: { type: "string" } } },
              responseJsonSchema: { type: "object", description: s("respschema") },
            },
          ],
        },
      ],
      toolConfig: { retrievalConfig: { languageCode: s("lang") } },
      contents: [
        {
          role: "user",
          parts: [
            { text: s("text") },
            { inlineData: { mimeType: "image/png", data: "aGk=", displayName: s("display2") } },
          ],
        },
        {
          role: "model",
          parts: [
            { functionCall: { name: "t", args: { [s("akey")]: s("aval"), name: s("aname") } } },
            { executableCode: { language: "PYTHON", code: s("code") } },
            { codeExecutionResult: { outcome: "OUTCOME_OK", output: s("cres") } },
          ],
        },
        {
          role: "user",
          parts: [{ functionResponse: { name: "t", response: { [s("rkey")]: s("rval"), name: s("rname") } } }],
        },
      ],
    },
  ],
  "gc speaker": [
    "/v1beta/models/any:generateContent",
    {
      contents: [{ parts: [{ text: "hi" }] }],
      generationConfig: {
        speechConfig: {
          multiSpeakerVoiceConfig: {
            speakerVoiceConfigs: [
              { speaker: s("speaker"), voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
              { speaker: "B", voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
            ],
          },
        },
      },
    },
  ],
  "gc labels": [
    "/v1beta/models/any:generateContent",
    { contents: [{ parts: [{ text: "hi" }] }], labels: { [s("labelkey")]: "x", name: s("labelname") } },
  ],
  embeddings: ["/v1/embeddings", { model: "any", input: [s("input")], user: s("user"), later: { name: s("x") } }],
  embeddings2: ["/v1/embeddings", { model: "any", input: ["hi"], later: { name: s("x"), [s("k")]: 1 } }],
  "gc embed": [
    "/v1beta/models/any:embedContent",
    { content: { parts: [{ text: s("c") }] }, title: s("title"), taskType: "RETRIEVAL_DOCUMENT" },
  ],
  "gc embed2": [
    "/v1beta/models/any:embedContent",
    { content: { parts: [{ text: "c" }] }, later: { name: s("x"), [s("k")]: 1 } },
  ],
  count: [
    "/v1/messages/count_tokens",
    {
      model: "any",
      messages: [{ role: "user", content: s("count") }],
      mcp_servers: [{ type: "url", url: "https://mcp.example", name: s("mcpname") }],
    },
  ],
  count2: [
    "/v1/messages/count_tokens",
    {
      model: "any",
      messages: [{ role: "user", content: "x" }],
      mcp_servers: [{ type: "url", url: "https://mcp.example", name: s("mcpname") }],
    },
  ],
  input_tokens: ["/v1/responses/input_tokens", { model: "any", input: s("count"), later: { name: s("later") } }],
};

describe.each(FORMATS)("relayed as %s", (format) => {
  it.each(Object.entries(REQUESTS))("a request of %s has no secret in any field", async (_name, [path, body]) => {
    const bodies: string[] = [];
    const backend = relay({
      format,
      baseUrl: "http://upstream/v1",
      apiKey: "sk-inner",
      fetch: async (input, init) => {
        bodies.push(await new Request(input, init).text());
        return Response.json({ error: { message: "no" } }, { status: 400 });
      },
    });
    const { send, failures } = opened({ backend, hooks: [redactor({ find })], key: {} });
    await send({ path, body: JSON.stringify(body) });
    expect(bodies.join("\n").match(/[\w.]+@secret/g) ?? []).toEqual([]);
    expect(failures.filter(({ port }) => port === "hook")).toEqual([]);
  });
});

it("a request for a picture has none in the names of its files", async () => {
  const file = { bytes: new Uint8Array(8), mediaType: "image/png", width: 1, height: 1 } as const;
  const request: HookRequest = {
    model: "any",
    operation: "edit",
    prompt: "Hm",
    images: [{ ...file, name: s("image") }, file],
    mask: { ...file, name: s("mask") },
    style: s("style"),
    count: 1,
    size: "auto",
    delivery: "data",
    stream: false,
  };
  const changed = await redactor({ find }).before?.(request, {} as HookCall);
  expect(changed).toMatchObject({
    images: [{ name: "[EMAIL_2]" }, file],
    mask: { name: "[EMAIL_3]" },
    style: "[EMAIL_1]",
  });
});
