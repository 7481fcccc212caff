/** The encrypted store keeps the laws of its port, shows no content to the store, and notices each change of a content. */

import { describe, expect, it } from "vitest";
import {
  encryptedResponseStore,
  type EncryptionKey,
  memoryResponseStore,
  type MemoryResponseStore,
  type ResponseStore,
} from "../../src/index.ts";
import { manualClock, responseStoreLaws } from "../../src/testing/laws/index.ts";

const keyOf = (name: string, byte = 7): EncryptionKey => ({ name, secret: new Uint8Array(32).fill(byte) });
const [OLD, NEW] = [keyOf("2025", 1), keyOf("2026", 2)];

const HOUR_MS = 3_600_000;
const documentOf = (id: string, content = `content of ${id}`) => ({ id, content, retainMs: HOUR_MS });
const plain = (): MemoryResponseStore => memoryResponseStore();

async function contentOf(store: ResponseStore, id = "a", keyId = "one"): Promise<string | undefined> {
  return (await store.read(keyId, [id]))[0]?.content;
}

describe("encryptedResponseStore", () => {
  it.each(responseStoreLaws)("$name", async (law) => {
    const verified = law.verify((setup) => {
      const clock = manualClock();
      const store = memoryResponseStore({ clock, ...setup });
      const [one, two] = [{ keys: [NEW, OLD] }, { keys: [OLD, NEW] }];
      return {
        store: encryptedResponseStore(store, one),
        other: encryptedResponseStore(store, two),
        advance: (ms) => clock.advance(ms),
      };
    });
    await expect(verified).resolves.toBeUndefined();
  });

  it("hides contents from the store, each time in another text, and leaves the rest readable", async () => {
    const inner = plain();
    const store = encryptedResponseStore(inner, { keys: [NEW] });
    const texts = new Set<string>();
    for (const id of ["a", "b"])
      await store.create("one", [{ ...documentOf(id, "secret words"), aliases: [`x${id}`] }]);
    await store.update("one", { ...documentOf("a", "secret words"), revision: 0 });
    for (const document of await inner.read("one", ["a", "xb"])) {
      expect(document.content).toMatch(/^aes-gcm:2026:[A-Za-z0-9+/]+=*$/);
      expect(atob(document.content.split(":")[2] ?? "")).not.toContain("secret");
      texts.add(document.content.slice("aes-gcm:2026:".length, "aes-gcm:2026:".length + 16));
    }
    expect(texts.size, "two contents must have different IVs").toBe(2);
    expect(await contentOf(store, "xb")).toBe("secret words");
  });

  it("encrypts the same content with a new IV at each update", async () => {
    const inner = plain();
    const store = encryptedResponseStore(inner, { keys: [NEW] });
    await store.create("one", [documentOf("a", "same")]);
    const before = await contentOf(inner);
    await store.update("one", { ...documentOf("a", "same"), revision: 0 });
    expect(await contentOf(inner)).not.toBe(before);
  });

  it("reads documents of older keys, and writes with the first", async () => {
    const inner = plain();
    await encryptedResponseStore(inner, { keys: [OLD] }).create("one", [documentOf("a")]);
    const rotated = encryptedResponseStore(inner, { keys: [NEW, OLD] });
    expect(await contentOf(rotated)).toBe("content of a");
    await rotated.update("one", { ...documentOf("a", "again"), revision: 0 });
    expect(await contentOf(inner)).toMatch(/^aes-gcm:2026:/);
    expect(await contentOf(encryptedResponseStore(inner, { keys: [NEW] }))).toBe("again");
    await expect(contentOf(encryptedResponseStore(inner, { keys: [OLD] }))).rejects.toThrow(
      'The document a is encrypted with the key "2026", which the store does not have.',
    );
  });

  it("does not read a content that was moved to another document, key or name, or changed", async () => {
    const inner = plain();
    const store = encryptedResponseStore(inner, { keys: [NEW, { ...NEW, name: "twin" }] });
    await store.create("one", [documentOf("a")]);
    const content = (await contentOf(inner)) ?? "";
    const start = "aes-gcm:2026:".length;
    const changes = {
      same: content,
      flipped: content.slice(0, start + 20) + (content[start + 20] === "A" ? "B" : "A") + content.slice(start + 21),
      short: content.slice(0, start + 20),
      odd: content.slice(0, -1),
      empty: content.slice(0, start),
      renamed: content.replace("2026", "twin"),
    };
    for (const [name, changed] of Object.entries(changes)) {
      await inner.create("two", [{ ...documentOf("a", changed), id: name === "same" ? "a" : name }]);
      await expect(contentOf(store, name === "same" ? "a" : name, "two")).rejects.toThrow(Error);
    }
    for (const [name, changed] of Object.entries(changes)) await inner.create("one", [documentOf(name, changed)]);
    for (const name of Object.keys(changes)) await expect(contentOf(store, name)).rejects.toThrow(Error);
    expect(await contentOf(store)).toBe("content of a");
  });

  it("tells a wrong secret of the same name", async () => {
    const inner = plain();
    await encryptedResponseStore(inner, { keys: [keyOf("k", 1)] }).create("one", [documentOf("a")]);
    const store = encryptedResponseStore(inner, { keys: [keyOf("k", 2)] });
    await expect(contentOf(store)).rejects.toThrow('cannot be decrypted with the key "k"');
  });

  it("reads documents without encryption only where the host allows it", async () => {
    const inner = plain();
    await inner.create("one", [documentOf("a"), documentOf("b", "aes-gcm:no text")]);
    await expect(contentOf(encryptedResponseStore(inner, { keys: [NEW] }))).rejects.toThrow("is not encrypted");
    const store = encryptedResponseStore(inner, { keys: [NEW], allowPlaintext: true });
    expect([await contentOf(store), await contentOf(store, "b")]).toEqual(["content of a", "aes-gcm:no text"]);
  });

  it("keeps its secret when the host clears the bytes", async () => {
    const inner = plain();
    const secret = new Uint8Array(32).fill(9);
    const store = encryptedResponseStore(inner, { keys: [{ name: "k", secret }] });
    secret.fill(0);
    await store.create("one", [documentOf("a")]);
    expect(await contentOf(encryptedResponseStore(inner, { keys: [keyOf("k", 9)] }))).toBe("content of a");
  });

  it.each([
    ["no key", [], TypeError],
    ["two keys of one name", [OLD, OLD], TypeError],
    ["a short secret", [{ name: "k", secret: new Uint8Array(31) }], RangeError],
    ["an empty name", [keyOf("")], TypeError],
    ["a name with a colon", [keyOf("a:b")], TypeError],
  ])("refuses %s", (_, keys, error) => {
    expect(() => encryptedResponseStore(plain(), { keys })).toThrow(error);
  });
});
