// hooks.ts
import { createGateway, GatewayError, type Hook, type HookCall, type HookRequest, memoryQuotaStore } from "polygate";
import { redactor } from "polygate/redactor";
import { myBackend } from "./backend.ts";

interface Row {
  readonly keyId: string;
  readonly prompt: HookRequest | undefined;
  readonly answer: string;
  readonly units: number;
}

// Ask your own service, and write to your own database, in place of these lists of the latest texts and rows.
export const asked: string[] = [];
export const saved: Row[] = [];
function keep<Item>(latest: Item[], item: Item): void {
  latest.push(item);
  if (latest.length > 100) latest.shift();
}
async function isAllowed(text: string): Promise<boolean> {
  keep(asked, text);
  return !text.includes("forbidden");
}
const save = async (row: Row): Promise<void> => keep(saved, row);

/** Hides values from the provider and from the hooks behind, and restores them in the answer. */
const redaction = redactor({
  find: {
    email: /[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+/,
    card: /\b(?:\d{4}[ -]?){3}\d{4}\b/,
    key: /\bsk-[\w-]{16,}/,
    name: ["Ada Lovelace", "Charles Babbage"],
  },
});

/** Asks a moderation service. A service that is down lets calls pass. */
const moderation: Hook = {
  timeoutMs: 2_000,
  down: "open",
  async before(request) {
    const text =
      "prompt" in request ? request.prompt : JSON.stringify("messages" in request ? request.messages : request.inputs);
    if (!(await isAllowed(text))) throw new GatewayError("invalid_request", "This request is against our rules.");
  },
};

/** Keeps the prompts and the answers of the keys whose owners have agreed. */
const agreed = new Set(["key-1"]);
const prompts = new WeakMap<HookCall, HookRequest>();
const promptLog: Hook = {
  before(request, call) {
    if (agreed.has(call.key.id)) prompts.set(call, request);
  },
  async after({ text, record }, call) {
    const { id } = call.key;
    if (agreed.has(id)) await save({ keyId: id, prompt: prompts.get(call), answer: text, units: record.units });
  },
};

export const gateway = createGateway({
  backend: myBackend,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a", granted: 1_000_000 }]),
  hooks: [redaction, moderation, promptLog],
});
