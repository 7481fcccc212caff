/** The laws of the ResponseStore port, to be run on a store by any test runner. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { DocumentPage, DocumentUpdate, KeptDocument, NewDocument, ResponseStore } from "../../index.ts";
import { closing, type Law } from "./law.ts";

/** The setup of a store for one law. */
export interface ResponseStoreSetup {
  /** The most documents that a key may have; undefined for the store's own bound. A store without bounds ignores it. */
  readonly maxDocumentsPerKey?: number;
}

/** A store under test, and its clock. */
export interface OpenedResponseStore {
  /** Must have room for a few hundred documents of some megabytes in all for each key, unless the setup says less. */
  readonly store: ResponseStore;
  /** The same documents through another connection or process, where there can be one. Default: the store itself. */
  readonly other?: ResponseStore;
  /** Lets `ms` milliseconds pass on the clock by which the store's documents expire. The clock may run on by itself as well. */
  advance(ms: number): void | Promise<void>;
  /** Closes the store. It is called once for each store, also when the law was broken. */
  close?(): void | Promise<void>;
}

/**
 * Opens a store for one law. Each law names its keys anew, so that one database may serve all of them.
 *
 * @example
 * const open: OpenResponseStore = (setup) => {
 *   const clock = manualClock();
 *   return { store: memoryResponseStore({ clock, ...setup }), advance: (ms) => clock.advance(ms) };
 * };
 */
export type OpenResponseStore = (setup: ResponseStoreSetup) => OpenedResponseStore | Promise<OpenedResponseStore>;

/** A promise of the ResponseStore port. */
export type ResponseStoreLaw = Law<OpenResponseStore>;

/** The retention is long, because a real store's clock runs on while a law is at work. */
const RETAIN_MS = 3_600_000;
const PAUSE_MS = 600_000;

/** A fresh store with short verbs. */
class Shelf {
  readonly store: ResponseStore;
  readonly other: ResponseStore;
  readonly advance: (ms: number) => void | Promise<void>;
  readonly keyId: string = `key-${randomUUID()}`;

  constructor(opened: OpenedResponseStore) {
    this.store = opened.store;
    this.other = opened.other ?? opened.store;
    this.advance = (ms) => opened.advance(ms);
  }

  /** Creates documents. Expects that the store accepts them. */
  async create(documents: readonly (Partial<NewDocument> & { id: string })[], store = this.store): Promise<void> {
    assert.equal(await this.tries(documents, store), true, `${documents.length} documents must be created`);
  }

  tries(documents: readonly (Partial<NewDocument> & { id: string })[], store = this.store): Promise<boolean> {
    return store.create(
      this.keyId,
      documents.map((document) => ({ content: document.id, retainMs: RETAIN_MS, ...document })),
    );
  }

  /** Creates a parent and children of it, each with its own call. */
  async family(parentId: string, children: readonly string[]): Promise<void> {
    await this.create([{ id: parentId }]);
    for (const id of children) await this.create([{ id, parentId }]);
  }

  update(id: string, revision: number, more: Partial<DocumentUpdate> = {}, store = this.store): Promise<boolean> {
    return store.update(this.keyId, { id, revision, content: `${id} ${revision + 1}`, retainMs: RETAIN_MS, ...more });
  }

  /** Returns the ids of the documents that `read` finds, sorted. */
  async found(ids: readonly string[], store = this.store, keyId = this.keyId): Promise<string[]> {
    return (await store.read(keyId, ids)).map(({ id }) => id).toSorted();
  }

  async document(id: string, store = this.store): Promise<KeptDocument | undefined> {
    return (await store.read(this.keyId, [id]))[0];
  }

  async page(parentId: string, page: Partial<DocumentPage> = {}, store = this.store): Promise<string[]> {
    return (await store.list(this.keyId, parentId, { limit: 1_000, order: "asc", ...page })).map(({ id }) => id);
  }

  async pages(parentId: string, limit: number, order: "asc" | "desc"): Promise<string[][]> {
    const pages: string[][] = [];
    for (let after: string | undefined; ; after = pages.at(-1)?.at(-1)) {
      const page = await this.page(parentId, { limit, order, ...(after !== undefined && { after }) });
      if (page.length === 0) return pages;
      pages.push(page);
      assert.ok(pages.length < 1_000, "the pages of a list must come to an end");
    }
  }

  /** Asserts that nothing is left of documents. */
  async expectGone(ids: readonly string[], why: string): Promise<void> {
    for (const store of [this.store, this.other]) {
      assert.deepEqual(await this.found(ids, store), [], why);
      for (const id of ids) assert.deepEqual(await this.page(id, {}, store), [], why);
    }
    for (const id of ids) {
      assert.equal(await this.update(id, 0), false, `an update must fail: ${why}`);
      assert.equal(await this.store.delete(this.keyId, id), false, `a deletion must fail: ${why}`);
    }
  }
}

const law = (
  name: string,
  body: (shelf: Shelf) => Promise<void>,
  setup: ResponseStoreSetup = {},
): ResponseStoreLaw => ({
  name,
  async verify(open) {
    const opened = await open(setup);
    await closing(opened, () => body(new Shelf(opened)));
  },
});

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** Texts that a store may spoil. */
const EVERY_CHARACTER = [
  "\uFEFFa mark at the beginning",
  Array.from({ length: 0x2100 }, (_, code) => String.fromCodePoint(code + 1)).join(""),
  "\u2028\u2029\uFEFF",
  "😀 ein Fuchs",
  '{"text":"\\ud800\\u0000"}',
  "  spaces at both ends \n",
].join("|");

/** Ids that a store may confuse with each other, with a path, or with a property of every object. */
const SIMILAR_IDS: readonly string[] = [
  ..."a b A B a:b a/b a\\b a.b a?b a#b a%2Fb a%b a_b a* .. . ../a $ ' \" a$ constructor __proto__ toString".split(" "),
  "x".repeat(189),
  "x".repeat(190),
];

/** Texts that cannot be ids. */
const NO_IDS = ["", " ", "a b", "ä", "a\0", "a\n", "\ud800", "x".repeat(191)];

/**
 * The promises of every ResponseStore. Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of responseStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const responseStoreLaws: readonly ResponseStoreLaw[] = [
  law("of 50 calls that create a document at once, one decides its content", async (shelf) => {
    const { store, other } = shelf;
    await Promise.all(
      numbers(50).map((number) =>
        shelf.create([{ id: "a", content: `${number}`, aliases: [`b${number}`] }], number % 2 > 0 ? other : store),
      ),
    );
    const document = await shelf.document("a");
    assert.equal(document?.revision, 0, "the document must be there, without an update");
    assert.deepEqual(document.aliases, [`b${document.content}`], "the document must be of one call alone");
    await shelf.create([{ id: "a", content: "late" }]);
    assert.equal((await shelf.document("a", other))?.content, document.content, "the content must stay");
    const found = await shelf.found(numbers(50).map((number) => `b${number}`));
    assert.deepEqual(found, ["a"], "the document must have the aliases of one call");
  }),

  law("of 50 updates of one revision at once, exactly one succeeds", async (shelf) => {
    const { store, other } = shelf;
    await shelf.create([{ id: "a" }]);
    for (const revision of [0, 1]) {
      const done = await Promise.all(
        numbers(50).map((number) =>
          shelf.update("a", revision, { content: `${revision} ${number}` }, number % 2 > 0 ? other : store),
        ),
      );
      assert.equal(done.filter(Boolean).length, 1, "one update must succeed");
      const document = await shelf.document("a", other);
      assert.equal(document?.content, `${revision} ${done.indexOf(true)}`, "its content must be the content");
      assert.equal(document?.revision, revision + 1, "the revision must count it");
    }
  }),

  law("an update of another revision, or of a document that does not exist, changes nothing", async (shelf) => {
    await shelf.create([{ id: "a", aliases: ["b"] }]);
    for (const [id, revision] of [["a", 1] as const, ["b", 0] as const, ["c", 0] as const])
      assert.equal(await shelf.update(id, revision), false, `update(${id}, ${revision}) must fail`);
    assert.equal(await shelf.update("a", 0), true, "the next revision must be accepted");
    assert.equal(await shelf.update("a", 0), false, "an old revision must fail");
    assert.equal((await shelf.document("a"))?.content, "a 1");
    assert.deepEqual(await shelf.found(["a", "b", "c"]), ["a"], "an update must not create");
  }),

  law("documents are created all together or not at all", async (shelf) => {
    await shelf.family("p", ["c"]);
    for (const wrong of [
      { id: "z", parentId: "nobody" },
      { id: "z", parentId: "c" },
      { id: "z", parentId: "z" },
    ]) {
      const documents = [{ id: "x" }, { id: "y", parentId: "p" }, wrong];
      assert.equal(await shelf.tries(documents), false, `a parent "${wrong.parentId}" must be refused`);
      assert.deepEqual(await shelf.found(["x", "y", "z"]), [], "nothing may be created");
    }
    assert.equal(
      await shelf.tries([{ id: "early", parentId: "late" }, { id: "late" }]),
      false,
      "a parent must come before its children",
    );
    await shelf.create([{ id: "late" }, { id: "early", parentId: "late" }]);
    assert.deepEqual(await shelf.page("late"), ["early"], "a parent may be created with its children");
  }),

  law("a document that exists stays as it is, and the others of its call are created", async (shelf) => {
    await shelf.family("p", ["a"]);
    await shelf.update("a", 0);
    await shelf.create([
      { id: "p", content: "again" },
      { id: "a", content: "again", parentId: "p", aliases: ["alias"] },
      { id: "b", content: "first", parentId: "p" },
      { id: "b", content: "second", parentId: "p" },
    ]);
    const documents = await shelf.store.read(shelf.keyId, ["p", "a", "b", "alias"]);
    const contents = documents.map(({ id, content, revision }) => `${id}: ${content}, ${revision}`);
    assert.deepEqual(contents.toSorted(), ["a: a 1, 1", "b: first, 0", "p: p, 0"]);
    assert.deepEqual(await shelf.page("p"), ["a", "b"], "each child must be listed once");
  }),

  law(
    "of 20 calls that create a document that must be new, one succeeds, and the others create nothing",
    async (shelf) => {
      const { store, other } = shelf;
      await shelf.create([{ id: "p" }]);
      const done = await Promise.all(
        numbers(20).map((number) =>
          shelf.tries(
            [
              { id: `c${number}`, parentId: "p" },
              { id: "c", parentId: "p", content: `${number}`, isNew: true },
            ],
            number % 2 > 0 ? other : store,
          ),
        ),
      );
      assert.equal(done.filter(Boolean).length, 1, "one call must succeed");
      const winner = `${done.indexOf(true)}`;
      assert.deepEqual(await shelf.page("p"), [`c${winner}`, "c"], "the others must create nothing");
      assert.equal((await shelf.document("c"))?.content, winner);
      await shelf.create([{ id: "c", parentId: "p", content: "again" }]);
      assert.equal((await shelf.document("c"))?.content, winner, "it stays, as any document does");
    },
  ),

  law("a document is found by its id and its aliases, once", async (shelf) => {
    await shelf.create([{ id: "a", aliases: ["x", "shared", "b"] }]);
    await shelf.create([{ id: "b", aliases: ["y", "shared"] }]);
    assert.deepEqual(await shelf.found(["x", "a", "x", "none"]), ["a"]);
    assert.deepEqual(await shelf.found(["x", "y"], shelf.other), ["a", "b"]);
    assert.deepEqual(await shelf.found(["b"]), ["b"], "an id goes before an alias");
    assert.equal((await shelf.found(["shared"])).length, 1, "one of the documents with an alias is found");
    assert.deepEqual((await shelf.document("a"))?.aliases.toSorted(), ["b", "shared", "x"]);
    await shelf.store.delete(shelf.keyId, (await shelf.found(["shared"]))[0] ?? "");
    assert.equal((await shelf.found(["shared"])).length, 1, "the other document must still be found");
    assert.deepEqual(await shelf.found([]), []);
  }),

  law("an update replaces the aliases, or leaves them", async (shelf) => {
    await shelf.create([{ id: "a", aliases: ["x", "y"] }]);
    await shelf.update("a", 0);
    assert.deepEqual((await shelf.document("x"))?.aliases.toSorted(), ["x", "y"], "the aliases must stay");
    await shelf.update("a", 1, { aliases: ["y", "z"] });
    assert.deepEqual(await shelf.found(["x"]), [], "an old alias must be gone");
    for (const id of ["a", "y", "z"])
      assert.deepEqual((await shelf.document(id))?.aliases.toSorted(), ["y", "z"], `${id} must be found`);
  }),

  law("similar ids are different documents", async (shelf) => {
    const children = SIMILAR_IDS.filter((id) => id.length < 100).map((id) => ({
      id: `|${id}`,
      parentId: "a",
      aliases: [id],
    }));
    await shelf.create(SIMILAR_IDS.map((id) => ({ id, content: `content of ${id}` })));
    await shelf.create(children);
    const documents = await shelf.other.read(shelf.keyId, SIMILAR_IDS);
    assert.deepEqual(
      documents.map(({ id, content }) => `${id} is ${content}`).toSorted(),
      SIMILAR_IDS.map((id) => `${id} is content of ${id}`).toSorted(),
    );
    assert.deepEqual(
      await shelf.page("a"),
      children.map(({ id }) => id),
    );
  }),

  law("nothing of one key is visible to another, however similar their ids are", async (shelf) => {
    const { store, keyId } = shelf;
    await shelf.create([
      { id: "p", content: "mine" },
      { id: "c", parentId: "p", aliases: ["alias"] },
    ]);
    for (const foreign of [
      `${keyId} `,
      ` ${keyId}`,
      keyId.toUpperCase(),
      `${keyId}:p`,
      `${keyId}é`,
      `${keyId}e\u0301`,
    ]) {
      const why = `${JSON.stringify(foreign)} is another key`;
      assert.deepEqual(await store.read(foreign, ["p", "c", "alias"]), [], why);
      assert.deepEqual(await store.list(foreign, "p", { limit: 9, order: "asc" }), [], why);
      assert.equal(await store.update(foreign, { id: "p", revision: 0, content: "x", retainMs: 1 }), false, why);
      assert.equal(await store.delete(foreign, "p"), false, why);
      const child = { id: "d", parentId: "p", content: "", retainMs: RETAIN_MS };
      assert.equal(await store.create(foreign, [child]), false, why);
      // The same ids are free for each key.
      const documents = ["p", "alias"].map((id) => ({ id, content: foreign, retainMs: RETAIN_MS }));
      assert.equal(await store.create(foreign, documents), true, why);
      assert.equal((await store.read(foreign, ["p"]))[0]?.content, foreign, why);
      assert.equal(await store.delete(foreign, "alias"), true, why);
    }
    assert.equal((await shelf.document("p"))?.content, "mine");
    assert.deepEqual(await shelf.found(["alias"]), ["c"]);
    assert.deepEqual(await shelf.page("p"), ["c"]);
  }),

  law("ids of a key and of a document that together read alike are not mixed up", async (shelf) => {
    const { store, keyId } = shelf;
    const pairs = [
      [`${keyId}:a`, "b"],
      [keyId, "a:b"],
      [`${keyId}/a`, "b"],
      [keyId, "a/b"],
    ] as const;
    for (const [key, id] of pairs)
      await store.create(key, [{ id, aliases: ["x"], content: `${key} ${id}`, retainMs: RETAIN_MS }]);
    for (const [key, id] of pairs) assert.equal((await store.read(key, [id]))[0]?.content, `${key} ${id}`);
  }),

  law("a content is returned as it was stored, of any characters and any length", async (shelf) => {
    for (const [id, content] of [
      ["every", EVERY_CHARACTER],
      ["empty", ""],
      ["long", "0123456789abcdé".repeat(128 * 1024)],
    ] as const) {
      await shelf.create([{ id, content }]);
      assert.ok((await shelf.document(id, shelf.other))?.content === content, `${id} must come back`);
      await shelf.create([{ id: `${id}-updated` }]);
      await shelf.update(`${id}-updated`, 0, { content });
      assert.ok((await shelf.document(`${id}-updated`))?.content === content, `${id} must come back after an update`);
    }
  }),

  law("what one process changes, every other sees", async (shelf) => {
    await shelf.create([{ id: "p" }], shelf.other);
    await shelf.create([{ id: "c", parentId: "p", aliases: ["alias"] }]);
    assert.deepEqual(await shelf.page("p", {}, shelf.other), ["c"]);
    assert.equal(await shelf.update("c", 0, {}, shelf.other), true);
    assert.equal((await shelf.document("alias"))?.content, "c 1");
    assert.equal(await shelf.other.delete(shelf.keyId, "p"), true);
    await shelf.expectGone(["p", "c", "alias"], "another process has deleted it");
  }),

  law("a document is there to its end, and never after it", async (shelf) => {
    const ids = ["p", "c", "alias"];
    await shelf.create([{ id: "p" }, { id: "c", parentId: "p", aliases: ["alias"] }]);
    await shelf.advance(RETAIN_MS - PAUSE_MS);
    assert.deepEqual(await shelf.found(ids), ["c", "p"], "its time has not come");
    assert.deepEqual(await shelf.page("p"), ["c"], "its time has not come");
    await shelf.advance(PAUSE_MS);
    await shelf.expectGone(ids, "its time is over");
    assert.equal(await shelf.tries([{ id: "d", parentId: "p" }]), false, "an expired parent takes no child");
    await shelf.create([{ id: "p", content: "new" }]);
    assert.deepEqual([(await shelf.document("p"))?.content, (await shelf.document("p"))?.revision], ["new", 0]);
    assert.deepEqual(await shelf.page("p"), [], "the children of the old document are gone");
    assert.deepEqual(await shelf.found(["c", "alias"]), [], "the children of the old document are gone");
  }),

  law("an update renews the time of a document, and may shorten it", async (shelf) => {
    await shelf.create(["short", "long"].map((id) => ({ id, aliases: ["shared"] })));
    await shelf.advance(RETAIN_MS - PAUSE_MS);
    await shelf.update("long", 0);
    await shelf.update("short", 0, { retainMs: PAUSE_MS / 2 });
    await shelf.advance(PAUSE_MS / 2);
    assert.deepEqual(await shelf.found(["shared"]), ["long"], "an alias names a document that has not expired");
    assert.deepEqual(await shelf.found(["long", "short"]), ["long"]);
    await shelf.advance(RETAIN_MS - PAUSE_MS);
    assert.deepEqual(await shelf.found(["long"]), ["long"], "its time runs from the update on");
  }),

  law("a child lives as long as its parent, whatever its own time is", async (shelf) => {
    await shelf.create([{ id: "p" }, { id: "short", parentId: "p", retainMs: 1 }]);
    await shelf.create([{ id: "shorter", parentId: "p", retainMs: 1 }]);
    await shelf.advance(RETAIN_MS - PAUSE_MS);
    assert.deepEqual(await shelf.found(["short", "shorter"]), ["short", "shorter"], "the parent lives");
    await shelf.update("short", 0, { retainMs: 1 });
    await shelf.update("p", 0);
    await shelf.advance(2 * PAUSE_MS);
    assert.deepEqual(await shelf.page("p"), ["short", "shorter"], "the parent was renewed");
    await shelf.advance(RETAIN_MS);
    await shelf.expectGone(["p", "short", "shorter"], "the parent has expired");
  }),

  law("a parent that gets a child lives for the time of the child at least", async (shelf) => {
    await shelf.create([{ id: "p" }]);
    await shelf.create([{ id: "q" }, { id: "d", parentId: "q", retainMs: 2 * RETAIN_MS }]);
    await shelf.advance(RETAIN_MS - PAUSE_MS);
    await shelf.create([{ id: "c", parentId: "p" }]);
    await shelf.advance(2 * PAUSE_MS);
    assert.deepEqual(await shelf.found(["p", "c", "q", "d"]), ["c", "d", "p", "q"], "their time was renewed");
    await shelf.create([{ id: "c", parentId: "p", retainMs: 10 * RETAIN_MS }]);
    await shelf.advance(RETAIN_MS - 2 * PAUSE_MS);
    await shelf.expectGone(["p", "c"], "a child that was there already renews nothing");
  }),

  law("a list has the children in the order of their creation, in pages of any size", async (shelf) => {
    const ids = numbers(23).map((number) => `c${(number * 7) % 23}`);
    await shelf.family("p", ids.slice(0, 10));
    await shelf.create(ids.slice(10).map((id) => ({ id, parentId: "p" })));
    await shelf.family("q", ["other"]);
    for (const limit of [1, 5, 23, 100]) {
      const pages = await shelf.pages("p", limit, "asc");
      assert.deepEqual(pages.flat(), ids, `in pages of ${limit}`);
      assert.ok(
        pages.every(({ length }, index) => length === limit || index === pages.length - 1),
        `each page but the last must be full: ${limit}`,
      );
      assert.deepEqual((await shelf.pages("p", limit, "desc")).flat(), ids.toReversed(), `in pages of ${limit}`);
    }
    const [first] = await shelf.store.list(shelf.keyId, "p", { limit: 1, order: "asc" });
    assert.deepEqual({ ...first }, { ...(await shelf.document("c0")) }, "a list has whole documents");
    assert.equal(first?.parentId, "p");
    for (const order of ["asc", "desc"] as const)
      for (const after of ["none", "p", "other"])
        assert.deepEqual(await shelf.page("p", { after, order }), [], `no child of p is called ${after}`);
    for (const id of ["none", "c1"]) assert.deepEqual(await shelf.page(id), [], `${id} has no children`);
  }),

  law("a page ends before a document that is too large for it, and has one at least", async (shelf) => {
    await shelf.create([{ id: "p" }]);
    // A store may count some bytes beside a content.
    const sizes = { small: 10, large: 100_000, next: 100_000, last: 10 };
    for (const [id, length] of Object.entries(sizes))
      await shelf.create([{ id, parentId: "p", content: "x".repeat(length) }]);
    const page = (after?: string): Promise<string[]> =>
      shelf.page("p", { maxBytes: 150_000, ...(after !== undefined && { after }) });
    assert.deepEqual(await page(), ["small", "large"]);
    assert.deepEqual(await page("large"), ["next", "last"]);
    assert.deepEqual(await page("last"), []);
    assert.deepEqual(await shelf.page("p", { maxBytes: 150_000, order: "desc" }), ["last", "next"]);
    assert.deepEqual(await shelf.page("p", { maxBytes: 1, after: "small" }), ["large"]);
    assert.deepEqual(await shelf.page("p", { maxBytes: 500_000, limit: 3 }), ["small", "large", "next"]);
  }),

  law("an update, or the deletion of a child, leaves the order of the others", async (shelf) => {
    await shelf.family("p", ["a", "b", "c", "d", "e"]);
    await shelf.update("a", 0);
    for (const id of ["b", "e"]) await shelf.store.delete(shelf.keyId, id);
    await shelf.create([{ id: "f", parentId: "p" }]);
    assert.deepEqual(await shelf.page("p", { after: "a" }), ["c", "d", "f"]);
    assert.deepEqual((await shelf.pages("p", 2, "desc")).flat(), ["f", "d", "c", "a"]);
    for (const id of ["a", "f"]) await shelf.store.delete(shelf.keyId, id);
    assert.deepEqual(await shelf.page("p"), ["c", "d"]);
    assert.deepEqual((await shelf.pages("p", 1, "desc")).flat(), ["d", "c"]);
  }),

  law("a reader who turns the pages while others add children misses none", async (shelf) => {
    await shelf.create([{ id: "p" }]);
    const batches = numbers(40).map((batch) => numbers(1 + (batch % 4)).map((number) => `c${batch}-${number}`));
    let isWriting = true;
    const written = Promise.all(
      batches.map((ids, batch) =>
        shelf.create(
          ids.map((id) => ({ id, parentId: "p" })),
          batch % 2 > 0 ? shelf.other : undefined,
        ),
      ),
    ).finally(() => (isWriting = false));
    // A rejection is awaited below, after the pages.
    written.catch(() => {});
    const seen: string[] = [];
    for (let isLast = false; ;) {
      const after = seen.at(-1);
      const page = await shelf.page("p", { limit: 7, ...(after !== undefined && { after }) });
      seen.push(...page);
      if (isLast && page.length === 0) break;
      // A store that answers at once would otherwise leave no turn to the calls that write.
      await setImmediate();
      isLast = !isWriting;
    }
    await written;
    const all = await shelf.page("p");
    assert.deepEqual(seen, all, "the pages must have what the list has in the end");
    assert.deepEqual(all.toSorted(), batches.flat().toSorted(), "each child must be listed once");
    for (const ids of batches)
      assert.deepEqual(
        all.slice(all.indexOf(ids[0] ?? "")).slice(0, ids.length),
        ids,
        "a call's children stay together",
      );
  }),

  law("a deletion takes a document with all its children and aliases", async (shelf) => {
    const ids = ["p", "c", "d", "alias", "other-alias"];
    await shelf.create([
      { id: "p", aliases: ["alias"] },
      { id: "c", parentId: "p", aliases: ["other-alias"] },
      { id: "d", parentId: "p" },
      { id: "q", aliases: ["q-alias"] },
    ]);
    assert.equal(await shelf.store.delete(shelf.keyId, "alias"), false, "an alias deletes nothing");
    assert.equal(await shelf.store.delete(shelf.keyId, "p"), true);
    await shelf.expectGone(ids, "it was deleted");
    assert.deepEqual(await shelf.found(["q-alias"]), ["q"], "other documents stay");
    await shelf.create([{ id: "p" }]);
    assert.deepEqual(await shelf.page("p"), [], "the next document with the id has no children");
    assert.deepEqual(await shelf.found(ids), ["p"], "nor the old aliases");
  }),

  law("no child outlives a parent that is deleted while it is added", async (shelf) => {
    const { store, other, keyId } = shelf;
    for (const round of numbers(10)) {
      const [parentId, ids] = [`p${round}`, numbers(3).map((number) => `c${round}-${number}`)];
      await shelf.create([{ id: parentId }]);
      const adding = ids.map((id, number) => shelf.tries([{ id, parentId }], number % 2 > 0 ? store : other));
      const [isDeleted] = await Promise.all([store.delete(keyId, parentId), ...adding]);
      assert.equal(isDeleted, true, "the parent was there");
      await shelf.expectGone([parentId, ...ids], "the parent was deleted");
    }
  }),

  law("of 20 deletions at once, exactly one finds the document", async (shelf) => {
    await shelf.family("p", ["c"]);
    const done = await Promise.all(
      numbers(20).map((number) => (number % 2 > 0 ? shelf.store : shelf.other).delete(shelf.keyId, "p")),
    );
    assert.equal(done.filter(Boolean).length, 1);
    await shelf.expectGone(["p", "c"], "it was deleted");
  }),

  law(
    "a key with many documents loses none but its oldest, and other keys lose none",
    async (shelf) => {
      const modest = `${shelf.keyId}-modest`;
      await shelf.store.create(modest, [{ id: "m", content: "", retainMs: RETAIN_MS }]);
      for (const number of numbers(100)) await shelf.create([{ id: `d${number}` }]);
      assert.deepEqual(await shelf.found(["m"], shelf.store, modest), ["m"], "a key must not push out another");
      const found = new Set(await shelf.found(numbers(100).map((number) => `d${number}`)));
      assert.ok(
        numbers(5).every((number) => found.has(`d${99 - number}`)),
        "the newest documents must stay",
      );
      const oldest = numbers(100).findIndex((number) => found.has(`d${number}`));
      assert.equal(found.size, 100 - oldest, "the oldest documents must go first");
    },
    { maxDocumentsPerKey: 10 },
  ),

  law("values outside the limits are refused, and texts that cannot be ids are unknown", async (shelf) => {
    const { store, keyId } = shelf;
    const document = { id: "a", content: "", retainMs: RETAIN_MS };
    const wrong: Partial<NewDocument>[] = [
      ...NO_IDS.flatMap((id) => [{ id }, { aliases: ["b", id] }, { parentId: id }]),
      ...[0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY].map((retainMs) => ({ retainMs })),
      ...["\0", "\ud800"].map((content) => ({ content })),
    ];
    for (const more of wrong) {
      const why = `${JSON.stringify(more)} must be refused`;
      await assert.rejects(
        async () =>
          store.create(keyId, [
            { ...document, id: "b" },
            { ...document, ...more },
          ]),
        RangeError,
        why,
      );
      if (more.parentId === undefined)
        await assert.rejects(async () => store.update(keyId, { ...document, revision: 0, ...more }), RangeError, why);
    }
    for (const revision of [-1, 0.5])
      await assert.rejects(async () => store.update(keyId, { ...document, revision }), RangeError);
    for (const limit of [0, 1.5])
      await assert.rejects(async () => store.list(keyId, "a", { limit, order: "asc" }), RangeError);
    await assert.rejects(async () => store.create("", [document]), RangeError);
    assert.deepEqual(await shelf.found(["a", "b"]), [], "nothing may be created");
    await shelf.family("a", ["b"]);
    for (const id of NO_IDS) {
      assert.deepEqual(await shelf.found([id, "a"]), ["a"], `${JSON.stringify(id)} is unknown`);
      assert.deepEqual(await shelf.page(id), [], `${JSON.stringify(id)} is unknown`);
      assert.deepEqual(await shelf.page("a", { after: id }), [], `${JSON.stringify(id)} is unknown`);
      assert.equal(await store.delete(keyId, id), false, `${JSON.stringify(id)} is unknown`);
    }
  }),
];
