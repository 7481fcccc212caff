/** The messages of upstreams that callers read: about their own request, and without what belongs to the host. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shownMessage } from "../../src/upstreams/messages.ts";

const HIDDEN = /^Cannot read \[\w+\]$/;

const shown = (message: string): string | undefined =>
  shownMessage(message, "invalid_request", { show: undefined }, 400);

describe("a message about the caller's request", () => {
  it.each([
    "messages.0.content.1.text: Input should be a valid string",
    "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 200 instead.",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty for OBJECT type",
    "unexpected `tool_use_id` found in `tool_result` blocks: toolu_01A09q90qw90lq917835lq9B.",
    "This model is only supported in v1/responses and not in v1/chat/completions.",
    "The model is not supported in /v1/chat/completions. Use /v1beta/models, or POST /v1/responses/input_tokens.",
    "Invalid MIME type image/tiff; expected image/png or image/jpeg (3/4 of the parts).",
    "The model `llama3.3:70b-instruct-q4_K_M` does not support tools, see models/gemini-2.5-pro@001.",
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5-20250929",
    "Invalid schema for function 'get_users_v2': in context=('properties', 'org_name'), 'type' is missing",
  ])("is shown as it is: %s", (message) => {
    expect(shown(message)).toBe(message);
  });

  it.each([
    ["See https://internal.example/docs?key=1 for more.", "See [address] for more."],
    ["Could not reach 10.0.0.7:8080, tried [fe80::1]:443.", "Could not reach [address], tried [[address]]:443."],
    ["Upstream vllm-large:8000 and localhost said no.", "Upstream [address] and [address] said no."],
    ["No route at http://localhost:11434/api: gone", "No route at [address]: gone"],
    ["Ask gateway.prod.svc.cluster.local or ops@example.com.", "Ask [address] or [address]."],
    ["my-eastus.openai.azure.com/openai failed", "[address] failed"],
    ['File "/usr/lib/python3.12/vllm/x.py", line 3', 'File "[path]", line 3'],
    [String.raw`Cannot open C:\models\secret.gguf`, "Cannot open [path]"],
    ["in `org-AbCdEf123456`, proj_9x8y7z6w", "in `[account]`, [account]"],
    [
      "Publisher model projects/my-team-1/locations/us/models/x was not found",
      "Publisher model [account] was not found",
    ],
    [
      "project_number:1234567 or project 1234567 or deployment 'gpt-prod'",
      "[account] or project [account] or deployment [account]",
    ],
    ["arn:aws:bedrock:us-east-1:123456789012:model/x in 123456789012", "[account] in [account]"],
    ["Wrong sk-proj-abc...xyz and AIzaSyA123456789 and gsk_abcdef", "Wrong [redacted] and [redacted] and [redacted]"],
    ["Sent Authorization: Bearer abc.def", "Sent Authorization: Bearer [redacted]"],
    ["Token xa***yz, hash 0123456789abcdef0123456789abcdef", "Token [redacted], hash [redacted]"],
    ["Random dGhpcyBpcyBhIHNlY3JldCAx123abc", "Random [redacted]"],
  ])("is shown without what belongs to the host: %s", (message, expected) => {
    expect(shown(message)).toBe(expected);
  });

  it.each([
    "Your organization must be verified to use this model.",
    "You have no credits left.",
    "Invalid API key.",
    "User location is not supported for the API use.",
    "The account 7 has no access.",
  ])("is hidden when it is about the host's account: %s", (message) => {
    expect(shown(message)).toBeUndefined();
  });

  it("is cut where a word ends, so that no half of a secret is left", () => {
    const secret = "https://internal.example/x";
    for (const length of [4_080, 4_090, 4_096, 4_100])
      expect(shown(`${"a ".repeat(length / 2)}${secret}`)).not.toContain("internal");
    expect(shown("x".repeat(100_000))).toBeUndefined();
  });

  it("is cleaned at once, however hostile", () => {
    const pieces = [
      "a.",
      "a:",
      "a/",
      "/a",
      "::",
      "@a",
      "1.",
      "bearer ",
      "project: '",
      "...",
      "***",
      "sk-",
      "[",
      " ",
      "a-1B",
    ];
    for (const piece of pieces) expect(shown(piece.repeat(64 * 1024))?.length ?? 0).toBeLessThanOrEqual(64 * 1024);
  });

  it("names the routes of vendors, and no path of a file that begins or ends like one", () => {
    const version = fc.constantFrom("/v1", "/v2", "/v1beta", "/v1alpha2");
    const route = fc.constantFrom(
      "/chat/completions",
      "/responses",
      "/messages/count_tokens",
      "/images/edits",
      "/embeddings",
    );
    const part = fc.stringMatching(/^[a-z_]([\w.+-]{0,10}\w)?$/).filter((text) => !/^v\d/.test(text));
    fc.assert(
      fc.property(version, route, part, part, (before, path, secret, other) => {
        expect(shown(`Not supported in ${before}${path}.`)).toBe(`Not supported in ${before}${path}.`);
        expect(shown(`Cannot read /${secret}/${other}${before}${path}`)).toMatch(HIDDEN);
        expect(shown(`Cannot read /${secret}${path}/${other}`)).toMatch(HIDDEN);
        expect(shown(`Cannot read ${path}/${secret}/${other}`)).toMatch(HIDDEN);
      }),
    );
  });

  it.each(["/v1secret/keys/a.pem", "/v2data/users/bob", "/v1.d/token", "~/v1/messages/x", "/home/me/v1/messages"])(
    "hides the path of a file that looks like a version: %s",
    (path) => expect(shown(`Cannot read ${path}`)).toMatch(HIDDEN),
  );

  it("never holds a planted secret", () => {
    const secret = fc.constantFrom(
      "sk-live-0a1b2c3d4e",
      "https://h.internal/x",
      "10.1.2.3:99",
      "org-abcdef123",
      "/home/me/key.pem",
    );
    const around = fc.constantFrom(
      " ",
      "'",
      '"',
      "`",
      "(",
      ")",
      ", ",
      ". ",
      "=",
      "{",
      "}",
      "[",
      "]",
      "<",
      ">",
      "|",
      "\n",
    );
    fc.assert(
      fc.property(fc.string(), around, secret, around, fc.string(), (before, left, planted, right, after) => {
        expect(shown(before + left + planted + right + after) ?? "").not.toContain(planted);
      }),
    );
  });
});

describe("what a host decides", () => {
  const text = "Tier 1 of account 7 at https://internal.example";
  it("is to show everything, or nothing", () => {
    expect(shownMessage(text, "rate_limited", { show: true }, 429)).toBe(text);
    expect(shownMessage("temperature: no", "invalid_request", { show: false }, 400)).toBeUndefined();
  });

  it.each([
    ["rate_limited", 429],
    ["backend_failed", 500],
    ["invalid_request", 418],
    ["backend_unavailable", 409],
  ] as const)("is silent about %s of status %i by default", (code, status) => {
    expect(shownMessage("Come back later.", code, { show: undefined }, status)).toBeUndefined();
  });
});

describe("the upstream's name of a model", () => {
  it.each([
    ["gpt-4o", "The model `gpt-4o` does not exist", "The model `mine` does not exist"],
    ["gpt-4o", "Use GPT-4o-2024-08-06, or gpt-4o.", "Use mine, or mine."],
    ["openai/gpt-4.1", "models/gpt-4.1:free is not found", "models/mine is not found"],
    ["a+b(c", "No a+b(c here", "No mine here"],
    ["$&", "No $& here", "No mine here"],
  ])("is replaced by the caller's: %s", (from, text, expected) => {
    for (const show of [undefined, true])
      expect(shownMessage(text, "model_not_found", { show, rename: { from, to: "mine" } }, 404)).toBe(expected);
  });

  it("is replaced by a name that looks like a pattern", () => {
    const rules = { show: undefined, rename: { from: "x9", to: "$1$&" } };
    expect(shownMessage("No x9", "invalid_request", rules, 400)).toBe("No $1$&");
  });
});
