/** A key that stands in the URL shows nowhere: in no answer, no error, and nothing that a backend or its host is told (spec 5). */

import { expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import { MINIMAL } from "../formats/generate-content/bodies.ts";
import { GENERATE, METHODS, posting } from "../formats/generate-content/calls.ts";
import { fails, KEY, type Mount, plays, sharedStage } from "../hosts/stage.ts";

const BARE = KEY.slice("sk-".length);
const none = { "x-goog-api-key": undefined };

const withQuery = (path: string, query: string): string => {
  if (query === "") return path;
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
};

/** All of a response that a client or something on the way may show. */
const shown = async (response: Response): Promise<string> =>
  [JSON.stringify([...response.headers]), await response.text()].join("\n");

export function keyInUrlSuite(mount: Mount): void {
  const stage = sharedStage(mount);
  const secret = `${GENERATE}?key=${KEY}`;
  const request = (body: unknown, path = secret): Promise<Response> => stage().request(path, posting(body, none));

  it("to the backend", async () => {
    await (await request(MINIMAL)).text();
    expect(JSON.stringify(stage().backend.asked)).not.toContain(BARE);
  });

  it("in an answer", async () => {
    expect(await shown(await request(MINIMAL))).not.toContain(BARE);
  });

  it("in an error of the caller's", async () => {
    expect(await shown(await request({}))).not.toContain(BARE);
    expect(await shown(await request("{"))).not.toContain(BARE);
    expect(await shown(await request(MINIMAL, secret.replace("model-a", "%zz")))).not.toContain(BARE);
    expect(await shown(await stage().request(secret, { method: "DELETE" }))).not.toContain(BARE);
  });

  it("in an error of the backend's, nor in what the host is told of it", async () => {
    const { backend, failures } = stage();
    backend.play = fails(new Error(`upstream said ${KEY} and ${BARE}`));
    expect(await shown(await request(MINIMAL))).not.toContain(BARE);
    expect(failures.at(-1)?.text).toContain("upstream said");
    expect(failures.at(-1)?.text).not.toContain(KEY);
    backend.play = plays("Hello.");
  });

  it("in an error in the middle of a stream", async () => {
    const { backend } = stage();
    for (const [, path] of METHODS) {
      backend.play = fails(new GatewayError("backend_unavailable", "Gone."), "Hel");
      expect(await shown(await request(MINIMAL, withQuery(path, `key=${KEY}`)))).not.toContain(BARE);
    }
    backend.play = plays("Hello.");
  });
}
