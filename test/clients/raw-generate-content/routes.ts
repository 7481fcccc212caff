/** Where the endpoints are, and where a key is read. */

import { expect, it } from "vitest";
import { ask, bytesOf, COMPLETE, KEY, say, type Url } from "./socket.ts";

const header = (key: string): Record<string, string> => ({ "x-goog-api-key": key });
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

export function keySuite(url: Url, said: () => string): void {
  it.each<[string, Record<string, string>, string, number]>([
    ["in the query", {}, "?key=sk-demo", 200],
    ["in the query, beside alt", {}, "?alt=json&key=sk-demo", 200],
    ["in the header", header("sk-demo"), "", 200],
    ["as a bearer", bearer("sk-demo"), "", 200],
    ["in the header, over the query", header("sk-nobody"), "?key=sk-demo", 401],
    ["in the query, over a bearer", bearer("sk-nobody"), "?key=sk-demo", 200],
    ["in the query, where the header is empty", header(""), "?key=sk-demo", 200],
    ["as a bearer, where the query is empty", bearer("sk-demo"), "?key=", 200],
    ["nowhere", {}, "", 401],
    ["unknown", header("sk-nobody"), "", 401],
    ["in another format's header", { "x-api-key": "sk-demo" }, "", 401],
  ])("is read %s", async (_where, headers, query, status) => {
    expect(await ask(url(), say("Hi"), { path: COMPLETE + query, headers })).toMatchObject({ status });
  });

  it("in the query shows nowhere in an answer", async () => {
    for (const path of [`${COMPLETE}?key=sk-3f9a1c`, `/v1beta/models/x%zz:generateContent?key=sk-3f9a1c`]) {
      const { head, body } = await bytesOf(url(), { path, headers: {}, body: JSON.stringify(say("Hi")) });
      expect(head + body.toString()).not.toContain("3f9a1c");
    }
    expect(said()).not.toContain("3f9a1c");
  });
}

export function pathSuite(url: Url): void {
  it.each([
    ["/v1/models/demo-chat:generateContent", 200],
    ["/v1/models/demo%2Dchat:generateContent", 200],
    ["/v1/models/models/demo-chat:generateContent", 200],
    ["/v1beta/models/demo-chat%3AgenerateContent", 200],
    ["/v1beta/models/demo-chat:predict", 404],
    ["/v1beta/models/demo-chat", 404],
    ["/v1beta/models/org/gem:1%20x:generateContent", 404],
    ["/v1beta/models/demo-chat%zz:generateContent", 400],
    ["/v1beta/models/:generateContent", 400],
    ["/v1alpha/models/demo-chat:generateContent", 404],
  ])("%s is %i", async (path, status) => {
    const response = await fetch(url() + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...KEY },
      body: JSON.stringify(say("Hi")),
    });
    expect(response.status).toBe(status);
    await response.body?.cancel();
  });

  it("takes no other method, and says which it takes", async () => {
    const response = await fetch(url() + COMPLETE, { headers: KEY });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST");
    expect(await response.json()).toMatchObject({ error: { code: 405 } });
  });
}
