/** Response stores that are broken on purpose, each in one way, and the law that must notice. */

import { setImmediate } from "node:timers/promises";
import { memoryResponseStore, type NewDocument, type ResponseStore } from "../../../src/index.ts";
import {
  manualClock,
  type OpenedResponseStore,
  type OpenResponseStore,
  type ResponseStoreSetup,
} from "../../../src/testing/laws/index.ts";

export function openMemoryResponses(setup: ResponseStoreSetup): OpenedResponseStore {
  const clock = manualClock();
  return { store: memoryResponseStore({ clock, ...setup }), advance: (ms) => clock.advance(ms) };
}

/** A store with a fault. */
export interface ResponseMutant {
  /** The fault, fit for a test's name. */
  readonly fault: string;
  /** The name of a law that it breaks. */
  readonly breaks: string;
  readonly open: OpenResponseStore;
}

const mutant = (
  fault: string,
  breaks: string,
  verbs: (store: ResponseStore) => Partial<ResponseStore>,
): ResponseMutant => ({
  fault,
  breaks,
  open(setup) {
    const opened = openMemoryResponses(setup);
    const { store } = opened;
    const whole: ResponseStore = {
      create: (keyId, documents) => store.create(keyId, documents),
      update: (keyId, update) => store.update(keyId, update),
      read: (keyId, ids) => store.read(keyId, ids),
      list: (keyId, parentId, page) => store.list(keyId, parentId, page),
      delete: (keyId, id) => store.delete(keyId, id),
    };
    return { ...opened, store: { ...whole, ...verbs(store) } };
  },
});

/** A store in which ids and keys have other names. */
const renamed = (
  fault: string,
  breaks: string,
  nameOf: (id: string) => string,
  keyOf: (keyId: string) => string = (keyId) => keyId,
): ResponseMutant =>
  mutant(fault, breaks, (store) => ({
    create: (keyId, documents) =>
      store.create(
        keyOf(keyId),
        documents.map((document) => ({ ...document, id: nameOf(document.id) })),
      ),
    update: (keyId, update) => store.update(keyOf(keyId), { ...update, id: nameOf(update.id) }),
    read: (keyId, ids) => store.read(keyOf(keyId), ids.map(nameOf)),
    list: (keyId, parentId, page) => store.list(keyOf(keyId), nameOf(parentId), page),
    delete: (keyId, id) => store.delete(keyOf(keyId), nameOf(id)),
  }));

/** Creates documents with another time. */
const lasting = (fault: string, breaks: string, timeOf: (document: NewDocument) => number): ResponseMutant =>
  mutant(fault, breaks, (store) => ({
    create: (keyId, documents) =>
      store.create(
        keyId,
        documents.map((document) => ({ ...document, retainMs: timeOf(document) })),
      ),
  }));

const END = "a document is there to its end, and never after it";
const LONG = 2 ** 40;

export const responseMutants: readonly ResponseMutant[] = [
  mutant(
    "lets the last of several calls decide a content",
    "of 50 calls that create a document at once, one decides its content",
    (store) => ({
      async create(keyId, documents) {
        for (const { id } of documents) await store.delete(keyId, id);
        return store.create(keyId, documents);
      },
    }),
  ),
  mutant(
    "compares a revision, and writes a moment later",
    "of 50 updates of one revision at once, exactly one succeeds",
    (store) => ({
      async update(keyId, update) {
        const [found] = await store.read(keyId, [update.id]);
        if (found?.revision !== update.revision) return store.update(keyId, update);
        await setImmediate();
        const [now] = await store.read(keyId, [update.id]);
        return now ? store.update(keyId, { ...update, revision: now.revision }) : false;
      },
    }),
  ),
  mutant(
    "creates a document by an update",
    "an update of another revision, or of a document that does not exist, changes nothing",
    (store) => ({
      async update(keyId, update) {
        const [found] = await store.read(keyId, [update.id]);
        return found ? store.update(keyId, update) : store.create(keyId, [update]);
      },
    }),
  ),
  mutant("creates documents one by one", "documents are created all together or not at all", (store) => ({
    async create(keyId, documents) {
      // Refuse a whole call as the store does.
      const [first] = documents;
      if (first && documents.some(({ id }) => id === "")) return store.create(keyId, documents);
      for (const document of documents) if (!(await store.create(keyId, [document]))) return false;
      return true;
    },
  })),
  mutant(
    "drops a call in which a document exists",
    "a document that exists stays as it is, and the others of its call are created",
    (store) => ({
      async create(keyId, documents) {
        const ids = new Set(documents.map(({ id }) => id));
        const found = await store.read(keyId, [...ids]);
        return found.some(({ id }) => ids.has(id)) || store.create(keyId, documents);
      },
    }),
  ),
  mutant(
    "overlooks that a document must be new",
    "of 20 calls that create a document that must be new, one succeeds, and the others create nothing",
    (store) => ({
      create: (keyId, documents) =>
        store.create(
          keyId,
          documents.map(({ isNew: _isNew, ...document }) => document),
        ),
    }),
  ),
  mutant("finds documents by their ids alone", "a document is found by its id and its aliases, once", (store) => ({
    read: async (keyId, ids) => (await store.read(keyId, ids)).filter(({ id }) => ids.includes(id)),
  })),
  mutant("adds aliases to the old ones", "an update replaces the aliases, or leaves them", (store) => ({
    async update(keyId, update) {
      const [found] = await store.read(keyId, [update.id]);
      const aliases = update.aliases && [...(found?.aliases ?? []), ...update.aliases];
      return store.update(keyId, { ...update, ...(aliases && { aliases }) });
    },
  })),
  renamed("ignores the case of ids", "similar ids are different documents", (id) => id.toLowerCase()),
  renamed(
    "ignores the case of keys",
    "nothing of one key is visible to another, however similar their ids are",
    (id) => id,
    (keyId) => keyId.toLowerCase(),
  ),
  mutant(
    "joins the ids of key and document",
    "ids of a key and of a document that together read alike are not mixed up",
    (store) => {
      const contents = new Map<string, string>();
      return {
        create(keyId, documents) {
          for (const { id, content } of documents) contents.set(`${keyId}:${id}`.replaceAll("/", ":"), content);
          return store.create(keyId, documents);
        },
        read: async (keyId, ids) =>
          (await store.read(keyId, ids)).map((document) => {
            const isFirst = document.revision === 0 && document.parentId === undefined && document.content !== "";
            const joined = contents.get(`${keyId}:${document.id}`.replaceAll("/", ":"));
            return isFirst && joined?.startsWith(keyId.slice(0, 40)) ? { ...document, content: joined } : document;
          }),
      };
    },
  ),
  mutant(
    "drops a mark at the beginning of a text",
    "a content is returned as it was stored, of any characters and any length",
    (store) => ({
      read: async (keyId, ids) =>
        (await store.read(keyId, ids)).map((document) => ({
          ...document,
          content: document.content.replace(/^\uFEFF/, ""),
        })),
    }),
  ),
  lasting("forgets no document", END, () => LONG),
  mutant("lets an update leave the time", "an update renews the time of a document, and may shorten it", (store) => {
    const times = new Map<string, number>();
    return {
      create(keyId, documents) {
        for (const { id, retainMs } of documents) times.set(`${keyId} ${id}`, retainMs);
        return store.create(keyId, documents);
      },
      update: (keyId, update) =>
        store.update(keyId, { ...update, retainMs: times.get(`${keyId} ${update.id}`) ?? update.retainMs }),
    };
  }),
  mutant(
    "forgets a child by its own time",
    "a child lives as long as its parent, whatever its own time is",
    (store) => ({
      async create(keyId, documents) {
        const short = new Set(documents.flatMap(({ id, retainMs }) => (retainMs === 1 ? id : [])));
        return store.create(
          keyId,
          documents.filter(({ id }) => !short.has(id)),
        );
      },
    }),
  ),
  mutant("renews no parent", "a parent that gets a child lives for the time of the child at least", (store) => ({
    create: (keyId, documents) =>
      store.create(
        keyId,
        documents.map((document) => (document.parentId === undefined ? document : { ...document, retainMs: 1 })),
      ),
  })),
  mutant(
    "sorts a list by its ids",
    "a list has the children in the order of their creation, in pages of any size",
    (store) => ({
      async list(keyId, parentId, page) {
        const found = await store.list(keyId, parentId, page);
        return found.toSorted((one, other) => (one.id < other.id ? -1 : 1));
      },
    }),
  ),
  mutant(
    "gives pages of any size",
    "a page ends before a document that is too large for it, and has one at least",
    (store) => ({
      list: (keyId, parentId, { limit, order, after }) =>
        store.list(keyId, parentId, { limit, order, ...(after !== undefined && { after }) }),
    }),
  ),
  mutant(
    "moves a document to the end with each update",
    "an update, or the deletion of a child, leaves the order of the others",
    (store) => ({
      async update(keyId, update) {
        const [found] = await store.read(keyId, [update.id]);
        const isUpdated = await store.update(keyId, update);
        if (!isUpdated || found?.parentId === undefined) return isUpdated;
        await store.delete(keyId, update.id);
        return store.create(keyId, [{ ...update, parentId: found.parentId }]);
      },
    }),
  ),
  mutant(
    "adds the children of a call one by one",
    "a reader who turns the pages while others add children misses none",
    (store) => ({
      async create(keyId, documents) {
        if (documents.some(({ parentId }) => parentId !== "p") || documents.length < 2)
          return store.create(keyId, documents);
        for (const document of documents) {
          if (!(await store.create(keyId, [document]))) return false;
          await setImmediate();
        }
        return true;
      },
    }),
  ),
  mutant(
    "leaves the children of a deleted document",
    "a deletion takes a document with all its children and aliases",
    (store) => {
      const left = new Map<string, NewDocument>();
      return {
        async delete(keyId, id) {
          const children = await store.list(keyId, id, { limit: 1_000, order: "asc" });
          for (const { parentId: _, ...child } of children)
            left.set(`${keyId} ${child.id}`, { ...child, retainMs: LONG });
          return store.delete(keyId, id);
        },
        async read(keyId, ids) {
          const found = await store.read(keyId, ids);
          const orphans = ids.flatMap((id) => left.get(`${keyId} ${id}`) ?? []);
          return [...found, ...orphans.map((orphan) => ({ ...orphan, aliases: [], revision: 0 }))];
        },
      };
    },
  ),
  mutant(
    "makes a parent for a child that has none any more",
    "no child outlives a parent that is deleted while it is added",
    (store) => {
      const deleted = new Set<string>();
      return {
        async delete(keyId, id) {
          deleted.add(`${keyId} ${id}`);
          await setImmediate();
          return store.delete(keyId, id);
        },
        async create(keyId, documents) {
          await setImmediate();
          await setImmediate();
          const parents = documents.flatMap(({ parentId }) => parentId ?? []);
          const lost = parents.filter((id) => deleted.has(`${keyId} ${id}`) && id.startsWith("p0"));
          return store.create(keyId, [...lost.map((id) => ({ id, content: "", retainMs: LONG })), ...documents]);
        },
      };
    },
  ),
  mutant("finds a document twice", "of 20 deletions at once, exactly one finds the document", (store) => ({
    async delete(keyId, id) {
      const [found] = await store.read(keyId, [id]);
      await setImmediate();
      await store.delete(keyId, id);
      return found?.id === id;
    },
  })),
  {
    fault: "takes the room of one key from all",
    breaks: "a key with many documents loses none but its oldest, and other keys lose none",
    open({ maxDocumentsPerKey }) {
      const clock = manualClock();
      const store = memoryResponseStore({
        clock,
        ...(maxDocumentsPerKey !== undefined && { maxDocuments: maxDocumentsPerKey, maxDocumentsPerKey }),
      });
      const order: [string, string][] = [];
      const create: ResponseStore["create"] = async (keyId, documents) => {
        for (const { id } of documents) order.push([keyId, id]);
        const surplus = order.splice(0, Math.max(0, order.length - (maxDocumentsPerKey ?? order.length)));
        for (const [oldKey, oldId] of surplus) await store.delete(oldKey, oldId);
        return store.create(keyId, documents);
      };
      const whole: ResponseStore = {
        create,
        update: (keyId, update) => store.update(keyId, update),
        read: (keyId, ids) => store.read(keyId, ids),
        list: (keyId, parentId, page) => store.list(keyId, parentId, page),
        delete: (keyId, id) => store.delete(keyId, id),
      };
      return { store: whole, advance: (ms) => clock.advance(ms) };
    },
  },
  mutant(
    "takes everything",
    "values outside the limits are refused, and texts that cannot be ids are unknown",
    (store) => ({
      create: (keyId, documents) => store.create(keyId, documents).catch(() => true),
    }),
  ),
  {
    fault: "keeps its documents to its own process",
    breaks: "what one process changes, every other sees",
    open: (setup) => ({ ...openMemoryResponses(setup), other: openMemoryResponses(setup).store }),
  },
];
