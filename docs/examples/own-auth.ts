// own-auth.ts
import { createHmac } from "node:crypto";
import { createGateway } from "polygate";
import { openStores } from "polygate/stores";
import { myBackend } from "./backend.ts";

const { OWN_AUTH_SECRET = "change me" } = process.env;
const stores = await openStores("sqlite::memory:");
const { quotas } = stores.ports;

/** Returns the user of a token of your login; undefined for a bad token. An error would mean that the store is down, and callers get 503. */
async function userOf(token: string): Promise<string | undefined> {
  try {
    return verified(token); // Such as (await jwtVerify(token, secret)).payload.sub of the package jose.
  } catch {
    return undefined;
  }
}

function verified(token: string): string | undefined {
  const [, user] = /^token-of-(\w+)$/.exec(token) ?? [];
  if (user === undefined) throw new Error("The token is not valid.");
  return user;
}

/** Returns the secret of a user's key. Only this file uses the secret: the user sends a token in its place. */
const secretOf = (user: string): string => createHmac("sha256", OWN_AUTH_SECRET).update(user).digest("base64url");

const find = quotas.find.bind(quotas);
quotas.find = async (apiKey, call) => {
  const user = await userOf(apiKey);
  if (user === undefined) return find(apiKey, call); // Other secrets are those of usual keys.
  const known = await find(secretOf(user), call);
  if (known) return known;
  // The first call of a user makes the key. Another one at the same time finds that the id is taken.
  await quotas.add({ id: user, apiKey: secretOf(user), granted: 100_000 }).catch(() => {});
  return find(secretOf(user), call);
};

const gateway = createGateway({ backend: myBackend, ...stores.ports });
for (const token of ["token-of-anna", "nonsense"]) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hello" }] });
  const { status } = await gateway.fetch("http://localhost/v1/chat/completions", { method: "POST", headers, body });
  console.log(token, status);
}
await gateway.close();
await stores.close();
