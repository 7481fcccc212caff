/** A connection that a wrong setting prevents is told as a mistake of the settings, in the words of each runtime. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { APICallError } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { fakeModel } from "../ai-sdk/fake-models.ts";

/** Makes a call that fails. Returns its status, its body, and what the health of the gateway tells. */
async function failed(backend: ModelBackend) {
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]), onFailure: () => {} });
  const response = await gateway.fetch(
    new Request("http://gateway.test/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer sk-one" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Go." }] }),
    }),
  );
  const { upstreams } = await gateway.health();
  const shouldRetry = response.headers.get("x-should-retry");
  const told = {
    status: response.status,
    shouldRetry,
    text: await response.text(),
    failure: upstreams[0]?.lastFailure,
  };
  await gateway.close();
  return told;
}

const coded = (code: string, message = "words"): Error => Object.assign(new Error(message), { code });
const ofFetch = (cause: Error): Error => new TypeError("fetch failed", { cause });
const ofDeno = (words: string): Error =>
  ofFetch(new Error(`error sending request for url (https://up.test/): client error (Connect): ${words}`));

const NO_TLS = "does not speak TLS. http may be meant. Check the";
const OTHER_NAME = "has a certificate for another name. Check the";
const UNTRUSTED = "has a certificate that this process does not trust. Name its authority in NODE_EXTRA_CA_CERTS";
const NO_NAME = "has a name that does not resolve. Check the";
const NOBODY = "takes no connections. Check that it runs, and the";

/** A certificate may be renewed, a name may be told and a server may start at this moment. No server begins to speak TLS. */
const isCertain = (mistake: string): boolean => mistake === NO_TLS;

const ERRORS: readonly (readonly [runtime: string, thrown: Error, mistake: string])[] = [
  [
    "Node: no TLS",
    coded("ERR_SSL_WRONG_VERSION_NUMBER", "SSL routines:tls_validate_record_header:wrong version number:"),
    NO_TLS,
  ],
  ["Bun: no TLS", coded("EPROTO", "EPROTO: The TLS handshake failed. Does the server speak TLS on this port?"), NO_TLS],
  ["Deno: no TLS", ofDeno("received corrupt message of type InvalidContentType"), NO_TLS],
  ["Node and Bun: another name", coded("ERR_TLS_CERT_ALTNAME_INVALID"), OTHER_NAME],
  [
    "Deno: another name",
    ofDeno('invalid peer certificate: certificate not valid for name "up.test"; certificate is only valid for …'),
    OTHER_NAME,
  ],
  ["Node and Bun: self-signed", coded("DEPTH_ZERO_SELF_SIGNED_CERT"), UNTRUSTED],
  ["Node and Bun: an unknown authority", coded("UNABLE_TO_VERIFY_LEAF_SIGNATURE"), UNTRUSTED],
  ["Deno: an unknown authority", ofDeno("invalid peer certificate: UnknownIssuer"), UNTRUSTED],
  ["Node and Bun: expired", coded("CERT_HAS_EXPIRED"), "has a certificate that has expired."],
  ["Node and Bun: no such name", coded("ENOTFOUND", "getaddrinfo ENOTFOUND up.test"), NO_NAME],
  ["Node: nobody listens", coded("ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:9"), NOBODY],
  [
    "Bun: nobody listens",
    coded("ConnectionRefused", "Unable to connect. Is the computer able to access the url?"),
    NOBODY,
  ],
  ["Deno: nobody listens", ofDeno("tcp connect error: Connection refused (os error 111)"), NOBODY],
  ["Deno: no such name", ofDeno("dns error: failed to lookup address information: Name or service not known"), NO_NAME],
];

describe("a connection that settings prevent", () => {
  it.each(ERRORS)("is a mistake of a relay (%s)", async (_runtime, thrown, mistake) => {
    const main = relay({
      format: "chat-completions",
      baseUrl: "https://up.test/v1",
      fetch: () => Promise.reject(thrown instanceof TypeError ? thrown : ofFetch(thrown)),
    });
    const { status, shouldRetry, text, failure } = await failed(main);
    const code = isCertain(mistake) ? "backend_failed" : "backend_unavailable";
    expect([status, shouldRetry]).toEqual(isCertain(mistake) ? [500, "false"] : [503, null]);
    expect(text).not.toContain("up.test");
    expect(failure).toMatchObject({ code });
    expect(failure?.mistake).toContain(`The upstream at https://up.test ${mistake}`);
    const { problem } = await main.check();
    expect(problem).toBe(failure?.mistake);
  });

  it.each(ERRORS)("is a mistake of a provider (%s)", async (_runtime, thrown, mistake) => {
    const error = new APICallError({
      message: "Cannot connect to API",
      cause: thrown,
      url: "https://up.test/v1?key=sk-secret-0123456789",
      requestBodyValues: {},
      isRetryable: true,
    });
    const { status, failure } = await failed(aiSdk({ chat: () => fakeModel({ answer: () => Promise.reject(error) }) }));
    expect(status).toBe(isCertain(mistake) ? 500 : 503);
    expect(failure?.mistake).toContain(`The provider at https://up.test ${mistake}`);
    expect(failure?.mistake).not.toContain("secret");
  });

  it("is asked again by a route, unless no later try can help", async () => {
    for (const [, thrown, mistake] of ERRORS) {
      let left = 1;
      const main = relay({
        format: "chat-completions",
        baseUrl: "https://up.test/v1",
        fetch: async () => {
          if (left-- > 0) throw thrown instanceof TypeError ? thrown : ofFetch(thrown);
          return Response.json({
            id: "one",
            object: "chat.completion",
            created: 1,
            model: "m",
            choices: [{ index: 0, message: { role: "assistant", content: "Back." }, finish_reason: "stop" }],
            usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
          });
        },
      });
      const { status, text } = await failed(route({ routes: { m: main }, retry: { pauseMs: 1 } }));
      expect([status, text.includes("Back.")]).toEqual(isCertain(mistake) ? [500, false] : [200, true]);
    }
  });

  it("is none where the error names another host, such as a proxy", async () => {
    for (const [code, name] of [
      ["ENOTFOUND", "hostname"],
      ["ERR_TLS_CERT_ALTNAME_INVALID", "host"],
    ] as const)
      for (const [host, mistake] of [
        ["proxy.test", undefined],
        ["up.test", expect.any(String)],
      ]) {
        const fetch = () => Promise.reject(ofFetch(Object.assign(coded(code), { [name]: host })));
        const { failure } = await failed(relay({ format: "chat-completions", baseUrl: "https://up.test/v1", fetch }));
        expect(failure?.mistake).toEqual(mistake);
      }
  });

  it("is none of a connection to another port, such as that of a proxy", async () => {
    for (const [port, mistake] of [
      [3128, undefined],
      [443, expect.any(String)],
    ]) {
      const fetch = () => Promise.reject(ofFetch(Object.assign(coded("ECONNREFUSED"), { port })));
      const { failure } = await failed(relay({ format: "chat-completions", baseUrl: "https://up.test/v1", fetch }));
      expect(failure?.mistake).toEqual(mistake);
    }
  });

  it("is none where the connection only breaks off", async () => {
    for (const code of ["EAI_AGAIN", "ECONNRESET"]) {
      const fetch = () => Promise.reject(ofFetch(coded(code)));
      const { failure } = await failed(relay({ format: "chat-completions", baseUrl: "https://up.test/v1", fetch }));
      expect(failure).toEqual({ code: "backend_unavailable", at: expect.any(Number) });
    }
  });
});

it("https in front of a server of plain http is told as a mistake", async () => {
  const server = createServer((_request, response) => response.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { failure } = await failed(relay({ format: "chat-completions", baseUrl: `${origin}/v1` }));
  expect(failure?.mistake).toBe(
    `The upstream at ${origin} does not speak TLS. http may be meant. Check the baseUrl of the relay.`,
  );
  await new Promise((resolve) => server.close(resolve));
});
