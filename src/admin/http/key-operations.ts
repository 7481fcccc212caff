/** The operations on keys and their secrets. */

import * as v from "valibot";
import { given } from "../../model/json.ts";
import { oneLine } from "../../options.ts";
import { type Clock, readSoon } from "../../ports/clock.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { type KeyReport, MOST_LISTED, revokedKey } from "../../stores/durable.ts";
import { changedKeyOf, modelsOf, newKeyOf, noSuchKey } from "../../stores/ledger.ts";
import { asTold, keyMade } from "../answers.ts";
import { type IssuedKey, keysWith, withoutNulls } from "../key-admin.ts";
import { isRevokedAlready, KEY_STATES } from "../key-state.ts";
import { isLimitedWithout, metadataDoubt, revokedInWords, unlimitedInWords, unlimitedWithout } from "../much.ts";
import { assertHasQuota, assertLacksQuota, assertNewKey } from "../possible.ts";
import { expects, tagOf } from "./edit.ts";
import {
  type AdminGateway,
  assertAmount,
  assertKnown,
  assertMeant,
  type Asked,
  COUNT,
  type Desk,
  elsewhere,
  ID,
  NEW_ID,
  type Operation,
  operation,
  PAGE,
  pageOf,
  SOME_UNITS,
  TEXT,
  TIME,
  UNITS,
  unlessTaken,
} from "./operation.ts";
import { refused } from "./refusal.ts";

const SECONDS = v.pipe(v.number(), v.safeInteger(), v.description("Unix time in seconds; 0 for never."));

const NEW_KEY = v.strictObject({
  id: v.exactOptional(NEW_ID),
  name: v.exactOptional(TEXT),
  granted: v.exactOptional(v.nullable(UNITS)),
  models: v.exactOptional(v.nullable(v.array(TEXT))),
  expiresAt: v.exactOptional(SECONDS),
  paused: v.exactOptional(v.boolean()),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  budget: v.exactOptional(ID),
});

const KEY_CHANGES = v.strictObject(
  {
    name: v.exactOptional(TEXT),
    models: v.exactOptional(v.nullable(v.array(TEXT))),
    expiresAt: v.exactOptional(SECONDS),
    paused: v.exactOptional(v.boolean()),
    granted: v.exactOptional(v.nullable(UNITS)),
    metadata: v.exactOptional(v.record(TEXT, v.nullable(TEXT))),
  },
  elsewhere({ budget: "is set with PUT /keys/ID/budget" }),
);

const NAMES = v.nullable(v.array(TEXT));

const KEY = v.object({
  id: TEXT,
  name: TEXT,
  unlimited: v.boolean(),
  models: NAMES,
  expiresAt: SECONDS,
  paused: v.exactOptional(v.boolean()),
  budget: v.exactOptional(TEXT),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  granted: v.nullable(UNITS),
  used: UNITS,
  available: v.nullable(UNITS),
  held: UNITS,
  overdraft: UNITS,
  estimated: UNITS,
  secrets: COUNT,
  revoked: v.boolean(),
  spoilt: v.exactOptional(v.array(TEXT)),
  spent: UNITS,
  budgets: v.exactOptional(
    v.array(
      v.object({ id: TEXT, name: TEXT, granted: UNITS, used: UNITS, available: UNITS, held: UNITS, overdraft: UNITS }),
    ),
  ),
  left: v.nullable(UNITS),
  limitedBy: v.nullable(TEXT),
  usedUp: v.exactOptional(v.picklist(["quota", "budget"])),
});

/** A secret, which is shown once. */
const ISSUED = v.object({ id: TEXT, apiKey: v.nullable(TEXT) });

/** A remaining doubt about a change that was made, or a hint that nothing had to be changed. */
const NOTE = { note: v.exactOptional(TEXT) };

/** A new key, in the words of every key. */
const { unlimited, models, expiresAt, budget, granted } = KEY.entries;
const MADE = v.object({ ...ISSUED.entries, unlimited, models, expiresAt, budget, granted, ...NOTE });

/** Reads a filter by metadata: `team=a`, or several of them. */
const METADATA = v.pipe(
  v.union([v.string(), v.array(v.string())]),
  v.description("Such as `team=a`; several may be given."),
  v.transform((written) => [written].flat()),
  v.check((entries) => entries.every((entry) => entry.includes("=")), "must be written as name=text"),
  v.transform((entries) => Object.fromEntries(entries.map(entryOf))),
);

const entryOf = (written: string): [name: string, text: string] => {
  const at = written.indexOf("=");
  return [written.slice(0, at), written.slice(at + 1)];
};

/** The most keys that a request of a filtered list looks at: a page may have fewer keys than its limit, or none, and a next page. */
const MOST_SEARCHED = 10_000;

export const KEY_OPERATIONS: readonly Operation[] = [
  operation({
    operationId: "listKeys",
    method: "GET",
    path: "/keys",
    about:
      "Lists keys in the order of their ids. A request with filters looks at 10,000 keys: its page may have fewer keys than `limit`, or none, and a `next`. `models` is null for every model. `left` is what the calls of a key can still use, of its own quota and the budgets above it; null for a key that is unlimited or revoked. `usedUp` says whether a key with nothing left has used up its own quota or a budget. Without a quota of its own, its `granted` and `available` are null.",
    query: v.strictObject({
      ...PAGE,
      state: v.exactOptional(v.picklist(KEY_STATES)),
      budget: v.exactOptional(ID),
      metadata: v.exactOptional(METADATA),
    }),
    answer: pageOf(KEY),
    async run(desk, { query }) {
      const { found, next } = await keysWith(query, desk.store, desk.clock.now(), MOST_SEARCHED);
      if (found.length === 0) await assertKnown(desk, given({ budget: query.budget }));
      const data = await asTold(found, desk.store);
      return { body: { data, next: next === undefined || next === query.after ? null : next } };
    },
  }),
  operation({
    operationId: "createKey",
    method: "POST",
    path: "/keys",
    about:
      "Makes a key. Without `granted` and `budget`, the key is unlimited. Its secret is in the answer, and is never shown again. The answer has a `note` about an unlimited key, models that the gateway does not have, and mistyped names of metadata.",
    action: "keys.create",
    body: NEW_KEY,
    confirmed: true,
    status: 201,
    answer: MADE,
    async run(desk, { body, isConfirmed }) {
      const { keys, store, clock, gateway } = desk;
      const key = withoutNulls(body);
      const { id = "", granted: first = 0 } = key;
      assertAhead(key.expiresAt, clock);
      assertSound(gateway, newKeyOf(id, key).key);
      let models: string | undefined;
      const making = async (): Promise<IssuedKey> => {
        await assertAmount(desk, { isConfirmed }, "granted", body, { first }, () => assertNewKey(store, key));
        models = await noteOfModels(desk, key.models);
        return keys.create(key);
      };
      const made = keyMade(await unlessTaken(making(), () => store.report(id)), body);
      const note = noteOf(made.unlimited && noteOfUnlimited(made.id), models, metadataDoubt(key.metadata));
      return { body: { ...made, ...note }, made: made.id };
    },
  }),
  operation({
    operationId: "getKey",
    method: "GET",
    path: "/keys/:id",
    about: "Returns a key and its units.",
    answer: KEY,
    tagged: true,
    run: async (desk, { id }) => tellKey(desk, await desk.keys.usage(id)),
  }),
  operation({
    operationId: "updateKey",
    method: "PATCH",
    tagOf: tagOfKey,
    path: "/keys/:id",
    about:
      "Changes a key. What is not named stays. `paused` stops a key, or lets it work again. `granted` gives a key without a quota one of so many units beyond what it has used, and null takes its quota away; `grant` and `lower` change a quota.",
    action: "keys.update",
    body: KEY_CHANGES,
    confirmed: true,
    answer: v.object({ ...KEY.entries, ...NOTE }),
    tagged: true,
    async run(desk, asked) {
      const { id, body, isConfirmed } = asked;
      const { keys, store, clock, gateway } = desk;
      const expected = expects(asked, tagOfKey);
      const before = await store.report(id);
      // An editor may send all fields of a key that has expired already.
      if (body.expiresAt !== undefined && body.expiresAt !== before?.expiresAt) assertAhead(body.expiresAt, clock);
      if (!before) throw noSuchKey(id);
      expected.assert(before, `The API key ${id}`);
      assertSound(gateway, changedKeyOf(before, body), before);
      const { granted } = body;
      const quota = before.unlimited && typeof granted === "number" ? { quota: granted } : undefined;
      await assertAmount(desk, { isConfirmed }, "granted", body, quota, () => assertLacksQuota(store, id));
      const isLimited = granted === null ? assertStaysLimited({ isConfirmed }, "quota", before) : undefined;
      const named = body.models?.filter((model) => before.modelLimits[model] !== true);
      const models = await noteOfModels(desk, named);
      return expected.in(async () => {
        const key = await keys.update(id, body, (seen) => expected.holds(seen) && isLimited?.(seen) !== false);
        const unlimited = granted === null && isUnlimited(key) && noteOfUnlimited(id);
        return tellKey(desk, key, noteOf(unlimited, models, metadataDoubt(body.metadata, before.metadata)));
      });
    },
  }),
  operation({
    operationId: "listModels",
    method: "GET",
    path: "/models",
    about:
      "Lists the gateway's models and the rate tiers that the metadata of a key can name, at most 1,000 of each; null for what the gateway does not tell. `note` says which of the models in `name` it does not have; null for none, and when it cannot tell.",
    query: v.strictObject({
      name: v.optional(
        v.pipe(
          v.union([TEXT, v.array(TEXT)]),
          v.transform((names) => [names].flat()),
        ),
        [],
      ),
    }),
    answer: v.object({ models: NAMES, tiers: NAMES, note: v.nullable(TEXT) }),
    async run(desk, { query }) {
      const [choices, note = null] = await Promise.all([
        askGateway(desk, async (gateway) => gateway.keyChoices?.()),
        noteOfModels(desk, query.name),
      ]);
      return { body: { models: firstOf(choices?.models), tiers: firstOf(choices?.tiers), note } };
    },
  }),
  operation({
    operationId: "rotateSecret",
    method: "POST",
    path: "/keys/:id/rotate",
    about: "Gives a key a new secret. The older ones end after `overlapMs` milliseconds: a day by default.",
    action: "keys.rotate",
    body: v.strictObject({ overlapMs: v.exactOptional(v.pipe(COUNT, v.description("Milliseconds. Default: a day."))) }),
    answer: v.object({ ...ISSUED.entries, olderEndAt: TIME }),
    run: async ({ keys }, { id, body }) => ({ body: await keys.rotate(id, body) }),
  }),
  operation({
    operationId: "addSecret",
    method: "POST",
    path: "/keys/:id/secrets",
    about: "Gives a key one more secret. The others stay.",
    action: "keys.add-secret",
    body: v.strictObject({ expiresAt: v.exactOptional(SECONDS) }),
    status: 201,
    answer: ISSUED,
    async run({ keys, clock }, { id, body }) {
      assertAhead(body.expiresAt, clock);
      return { body: await keys.addSecret(id, body) };
    },
  }),
  operation({
    operationId: "revokeKey",
    method: "POST",
    path: "/keys/:id/revoke",
    about:
      "Deletes all secrets of a key for good. Running calls are still charged. For a key that is revoked already, nothing changes, and the answer has a `note`.",
    action: "keys.revoke",
    answer: v.object({ ...KEY.entries, ...NOTE }),
    tagged: true,
    async run(desk, { id }) {
      const before = await desk.keys.usage(id);
      if (isRevokedAlready(before)) return tellKey(desk, before, { note: revokedInWords(oneLine(id)) });
      await desk.keys.revoke(id);
      return tellKey(desk, await desk.keys.usage(id));
    },
  }),
  ...(["grant", "lower"] as const).map((verb) =>
    operation({
      operationId: verb === "grant" ? "grantQuota" : "lowerQuota",
      method: "POST",
      path: `/keys/:id/${verb}`,
      about: verb === "grant" ? "Adds units to a key's quota." : "Takes available units back from a key's quota.",
      action: `keys.${verb}`,
      body: v.strictObject({ units: SOME_UNITS }),
      confirmed: true,
      answer: KEY,
      tagged: true,
      async run(desk, { id, body, isConfirmed }) {
        const before = await desk.keys.usage(id);
        const isAdded = verb === "grant";
        const change =
          isAdded && !before.unlimited
            ? ({ added: body.units, given: before.granted ?? 0, to: "key" } as const)
            : undefined;
        const possible = () => assertHasQuota(desk.store, id, isAdded ? 0 : body.units);
        await assertAmount(desk, { isConfirmed }, "units", body, change, possible);
        return tellKey(desk, await desk.keys[verb](id, body.units));
      },
    }),
  ),
  operation({
    operationId: "assignBudget",
    method: "PUT",
    path: "/keys/:id/budget",
    about: "Lets a key draw on a budget, or on none: without a quota, it is then unlimited.",
    action: "keys.assign-budget",
    needs: "budgets",
    body: v.strictObject({ budget: v.nullable(ID) }),
    confirmed: true,
    answer: v.object({ ...KEY.entries, ...NOTE }),
    tagged: true,
    async run(desk, { id, body, isConfirmed, condition }) {
      const { budget } = body;
      const isLimited =
        budget === null ? assertStaysLimited({ isConfirmed }, "budget", await desk.store.report(id)) : undefined;
      const holds = (seen: ApiKey): boolean => condition?.(seen) !== false && isLimited?.(seen) !== false;
      await desk.store.assignBudget?.(id, budget ?? undefined, holds);
      const key = await desk.keys.usage(id);
      return tellKey(desk, key, noteOf(isUnlimited(key) && noteOfUnlimited(id)));
    },
  }),
  operation({
    operationId: "removeSecret",
    method: "POST",
    path: "/secrets/remove",
    about: "Deletes one secret, and returns the `id` of its key, which stays. An unknown secret changes nothing.",
    action: "secrets.remove",
    body: v.strictObject({ apiKey: ID }),
    answer: v.object({ id: v.exactOptional(TEXT), removed: v.boolean(), ...NOTE }),
    async run({ keys }, { body }) {
      const id = await keys.removeSecret(body.apiKey);
      if (id === undefined) return { body: { removed: false, note: "No key has this secret: nothing was changed." } };
      return { body: { id, removed: true }, made: id };
    },
  }),
];

/** Refuses a time that is over. */
function assertAhead(expiresAt = 0, clock: Clock): void {
  if (expiresAt > 0 && expiresAt * 1_000 <= clock.now())
    throw refused(
      400,
      `expiresAt: must be in the future, or 0 for never, and ${new Date(expiresAt * 1_000).toISOString()} is over. To stop a key, pause it.`,
    );
}

/** Refuses a key whose calls the gateway would refuse. A key that had the same fault before can still be paused or renamed. */
function assertSound(gateway: AdminGateway | undefined, key: ApiKey, before?: ApiKey): void {
  const fault = gateway?.keyFault?.(key);
  if (fault !== undefined && !(before && gateway?.keyFault?.(before) === fault)) throw refused(400, fault);
}

const firstOf = (names: readonly string[] | undefined): readonly string[] | null =>
  names?.slice(0, MOST_LISTED) ?? null;

/** The longest wait for the models of the gateway, in milliseconds: a key is made without them, too. */
const MODELS_MS = 2_000;

/** Asks the gateway something. Returns undefined without a gateway, and for an answer that fails or is late. */
const askGateway = async <Answer>(
  { gateway, clock }: Pick<Desk, "gateway" | "clock">,
  ask: (gateway: AdminGateway) => Promise<Answer>,
): Promise<Answer | undefined> => gateway && readSoon(ask(gateway), MODELS_MS, clock);

/**
 * Says which models the gateway does not have. The key gets them all the same: the gateway may get the model later, or another one may share
 * the keys.
 */
async function noteOfModels(
  desk: Pick<Desk, "gateway" | "clock">,
  models: readonly string[] | null = [],
): Promise<string | undefined> {
  return models?.length ? askGateway(desk, async (gateway) => gateway.modelFault?.(models)) : undefined;
}

/**
 * Refuses, as `assertMeant` does, to take the last limit that a key has. Returns the condition under which nothing needs a confirmation; none after
 * one.
 */
function assertStaysLimited(
  asked: Pick<Asked, "isConfirmed">,
  taken: "quota" | "budget",
  key: KeyReport | undefined,
): ((key: ApiKey) => boolean) | undefined {
  if (key?.revoked) throw revokedKey(key.id);
  assertMeant(asked, key && unlimitedWithout(taken, { ...key, hasQuota: !key.unlimited }));
  return asked.isConfirmed ? undefined : isLimitedWithout(taken);
}

const isUnlimited = ({ unlimited, budget }: KeyReport): boolean => unlimited && budget === undefined;

const noteOfUnlimited = (id: string): string =>
  `${unlimitedInWords(oneLine(id))} PUT /keys/ID/budget, or granted in PATCH /keys/ID, limits it.`;

/** Joins the notes that there are. */
function noteOf(...notes: readonly (string | false | undefined)[]): { readonly note?: string } {
  const told = notes.filter(Boolean);
  return told.length > 0 ? { note: told.join(" ") } : {};
}

const tellKey = async ({ store }: Desk, key: KeyReport, note: object = {}): Promise<{ body: object; tag: string }> => ({
  body: { ...(await asTold(key, store)), ...note },
  tag: tagOfKey(key),
});

/** Returns the tag of what an editor can change: the units that calls use do not count. */
function tagOfKey(key: ApiKey): string {
  const { name, unlimited, expiresAt, paused = false, budget, metadata = {} } = key;
  return tagOf([
    name,
    unlimited,
    modelsOf(key)?.toSorted() ?? null,
    expiresAt,
    paused,
    budget ?? null,
    Object.keys(metadata)
      .toSorted()
      .map((entry) => [entry, metadata[entry]]),
  ]);
}
