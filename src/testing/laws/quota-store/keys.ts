/** The laws of a QuotaStore's keys and their secrets. */

import assert from "node:assert/strict";
import { law, LEASE_MS, type QuotaStoreLaw } from "./law.ts";

/** Unix time in seconds; the laws' keys do not expire by the store's clock. */
const EXPIRES_AT = 4_102_444_800;

export const keyLaws: readonly QuotaStoreLaw[] = [
  law(
    "a key is found as it was declared, without its secret",
    [{ name: "Team", granted: 100, used: 30, models: ["small"], expiresAt: EXPIRES_AT }, { granted: 5 }],
    async (team, plain) => {
      const [secret = ""] = team.secrets;
      const found = await team.store.find(secret);
      assert.ok(found, "the key is known");
      const { id, name, unlimited, modelLimits, modelLimitsEnabled, expiresAt } = found;
      assert.deepEqual(
        { name, unlimited, modelLimits: { ...modelLimits }, modelLimitsEnabled, expiresAt },
        {
          name: "Team",
          unlimited: false,
          modelLimits: { small: true },
          modelLimitsEnabled: true,
          expiresAt: EXPIRES_AT,
        },
      );
      assert.ok(!id.includes(secret), "the id is not the secret");
      assert.ok(!JSON.stringify(found).includes(secret), "nor does it stand elsewhere");
      await team.expectUsed(30, "what was used before counts");
      const bare = await plain.store.find(plain.secrets[0] ?? "");
      assert.equal(bare?.modelLimitsEnabled, false, "a key without a list may use every model");
      assert.ok(bare.expiresAt === 0 || bare.expiresAt === -1, "a key that was given no end never expires");
    },
  ),

  law("what is found of a key is changed by no call, so that it can be cached", [{ granted: 100 }], async (key) => {
    const find = () => key.store.find(key.secrets[0] ?? "");
    const before = structuredClone(await find());
    await key.hold("live", 30);
    await key.hold("call", 30);
    await key.settle("call", 20);
    assert.deepEqual(structuredClone(await find()), before);
  }),

  law("a key's holds leave other keys alone", [{ granted: 100 }, { granted: 100 }], async (one, two) => {
    assert.notEqual(one.keyId, two.keyId, "each key has an id of its own");
    await one.hold("of-one", 80);
    await two.expectUsed(0, "another key's hold is not its own");
    await two.hold("of-two", 80);
    await one.settle("of-one", 10);
    await one.expectUsed(10, "one is charged");
    await two.expectBooks({ used: 80, held: 80 }, "two is not");
  }),

  law(
    "every secret of a key leads to the same ledger",
    [{ granted: 100, secrets: ["first", "second"] }],
    async (key) => {
      const [first, second] = await Promise.all(key.secrets.map((secret) => key.store.find(secret)));
      assert.deepEqual(structuredClone(second), structuredClone(first), "both secrets find the same key");
    },
  ),

  law("removing a secret loses no charge", [{ granted: 100, secrets: ["old", "new"] }], async (key) => {
    const [old = "", current = ""] = key.secrets;
    await key.hold("settled", 20);
    await key.settle("settled", 5);
    await key.hold("live", 30);
    await key.hold("expiring", 10);
    await key.renew("expiring", 7);
    await key.removeSecret(old);
    assert.equal(await key.store.find(old), undefined, "the secret is unknown");
    assert.equal((await key.store.find(current))?.id, key.keyId, "the other finds its key");
    await key.expectBooks({ used: 45, held: 40 }, "every hold and every charge is still there");
    await key.settle("live", 25);
    await key.expectUsed(40, "a live hold is settled as any other");
    await key.advance(LEASE_MS);
    await key.expectBooks({ used: 37, held: 0, estimated: 7 }, "and expires as any other");
  }),

  law("removing the last secret loses no charge of a call under way", [{ granted: 100 }], async (key) => {
    const [secret = ""] = key.secrets;
    await key.hold("live", 30);
    await key.hold("expiring", 10);
    await key.renew("expiring", 7);
    await key.removeSecret(secret);
    assert.equal(await key.store.find(secret), undefined, "the secret is unknown");
    await key.renew("live", 20);
    await key.settle("live", 25);
    await key.expectUsed(35, "the call is charged, and the other hold lives");
    await key.advance(LEASE_MS);
    await key.expectUsed(32, "until it expires");
  }),

  law("a secret or a key that there is not is undefined, and gets nothing", [{ granted: 100 }], async (key) => {
    const [secret = ""] = key.secrets;
    for (const stranger of ["", `${secret}0`, secret.toUpperCase(), "__proto__"]) {
      assert.equal(await key.store.find(stranger), undefined, `${stranger} is no secret`);
      const keyId = `${key.keyId}0${stranger}`;
      assert.equal(await key.store.balance(keyId), undefined, `${keyId} is no key`);
      const terms = { keyId, atLeast: 0, atMost: 10, leaseMs: LEASE_MS };
      const answer = key.store.reserve({ id: key.id(`of ${stranger}`), ...terms });
      await key.expectRefusal(answer, { available: 0, held: 0 }, "a key that there is not gets nothing");
    }
  }),
];
