/** Kept responses by the official client: chains, reading, items, deletion, the background, conversations. */

import { expect, it } from "vitest";
import { errorOf, type Stage } from "./sdk.ts";

const model = "demo-chat";

async function collected<Item>(page: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of page) items.push(item);
  return items;
}

export function keptResponsesSuite({ sdk, connect }: Stage): void {
  const { NotFoundError } = sdk.OpenAI;

  it("are read again, with their items, until they are deleted", async () => {
    const { responses } = connect();
    const { output_text: _text, ...first } = await responses.create({ model, input: "one", instructions: "Be kind." });
    const { output_text, ...read } = await responses.retrieve(first.id);
    expect(read).toEqual(first);
    expect(output_text).toBe("You said: one");
    const second = await responses.create({ model, input: "two", previous_response_id: first.id });
    expect(second).toMatchObject({ output_text: "You said: two", previous_response_id: first.id, instructions: null });
    expect(second.usage?.input_tokens).toBeGreaterThan(2);
    const items = await collected(responses.inputItems.list(first.id, { order: "asc", limit: 1 }));
    expect(items).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "one" }], id: expect.any(String) },
    ]);
    await responses.delete(first.id);
    for (const call of [
      async () => responses.retrieve(first.id),
      async () => responses.delete(first.id),
      async () => responses.inputItems.list(first.id),
      async () => connect({ apiKey: "sk-metered" }).responses.retrieve(second.id),
    ])
      expect(await errorOf(call())).toBeInstanceOf(NotFoundError);
    await responses.delete(second.id);
  });

  it("are not kept where that is asked for", async () => {
    const { id, ...answer } = await connect().responses.create({ model, input: "one", store: false });
    expect(answer).toMatchObject({ store: false });
    expect(await errorOf(connect().responses.retrieve(id))).toBeInstanceOf(NotFoundError);
  });

  it("name earlier items", async () => {
    const { responses } = connect();
    const first = await responses.create({ model, input: "one" });
    const id = first.output[0]?.id ?? "";
    const asked = {
      model,
      input: [{ type: "item_reference", id } as const, { role: "user", content: "two" } as const],
    };
    const second = await responses.create(asked);
    expect(second.output_text).toBe("You said: two");
    expect(second.usage?.input_tokens).toBe(4);
  });

  it("are made in the background, polled, streamed later, and cancelled", async () => {
    const { responses } = connect();
    const queued = await responses.create({ model, input: "/delay 1 Hello there", background: true });
    expect(["queued", "in_progress"]).toContain(queued.status);
    await expect.poll(async () => (await responses.retrieve(queued.id)).status).toBe("completed");
    const events = await collected(await responses.retrieve(queued.id, { stream: true }));
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: { id: queued.id } });
    const rest = await collected(await responses.retrieve(queued.id, { stream: true, starting_after: 3 }));
    expect(rest).toEqual(events.slice(4));
    const replayed = await responses.stream({ response_id: queued.id, starting_after: 3 }).finalResponse();
    expect(replayed.output_text).toBe("You said: Hello there");

    const long = await responses.create({ model, input: "/delay 50 /repeat 1000", background: true });
    const cancelled = await responses.cancel(long.id);
    expect(cancelled).toMatchObject({ id: long.id, status: "cancelled" });
    expect((await responses.retrieve(long.id)).status).toBe("cancelled");
  });

  it("are streamed in the background while they are made", async () => {
    const asked = { model, input: "Hello there", background: true, stream: true } as const;
    const events = await collected(await connect().responses.create(asked));
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: { background: true } });
  });

  it("are compacted, and go on from the compaction", async () => {
    const { responses } = connect();
    const { object, output, usage } = await responses.compact({ model, input: "Remember the word slate." });
    expect([object, output.map(({ type }) => type)]).toEqual(["response.compaction", ["message", "compaction"]]);
    expect(usage.total_tokens).toBeGreaterThan(0);
    const input = [...output, { type: "message", role: "user", content: "/repeat 2" }] as never;
    expect((await responses.create({ model, input })).output_text).toBe("word word");
  });

  it("go on in a conversation", async () => {
    const { conversations, responses } = connect();
    const first = { type: "message", role: "user", content: "zero" } as const;
    const { id } = await conversations.create({ metadata: { topic: "numbers" }, items: [first] });
    expect(await conversations.retrieve(id)).toMatchObject({ id, metadata: { topic: "numbers" } });
    expect((await responses.create({ model, conversation: id })).output_text).toBe("You said: zero");
    for (const input of ["one", "two"])
      expect((await responses.create({ model, input, conversation: id })).conversation).toEqual({ id });
    const items = await collected(conversations.items.list(id, { order: "asc", limit: 2 }));
    expect(items.map((item) => "role" in item && item.role)).toEqual([
      "user",
      "assistant",
      "user",
      "assistant",
      "user",
      "assistant",
    ]);
    const [added] = (await conversations.items.create(id, { items: [first] })).data;
    const itemId = added?.id ?? "";
    expect(await conversations.items.retrieve(itemId, { conversation_id: id })).toMatchObject({ id: itemId });
    await conversations.items.delete(itemId, { conversation_id: id });
    expect(await errorOf(conversations.items.retrieve(itemId, { conversation_id: id }))).toBeInstanceOf(NotFoundError);
    expect(await conversations.update(id, { metadata: { topic: "letters" } })).toMatchObject({
      metadata: { topic: "letters" },
    });
    expect(await conversations.delete(id)).toMatchObject({ id, deleted: true });
    expect(await errorOf(conversations.retrieve(id))).toBeInstanceOf(NotFoundError);
  });
}
