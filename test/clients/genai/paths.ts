/** Where the endpoints are, and which models they name. */

import { describe, expect, it } from "vitest";
import { all, errorOf, recordingFetch, say, type Stage, streamedText, textOf, wireError } from "./sdk.ts";

export function pathsSuite({ connect, playground }: Stage): void {
  describe.each(["v1", "v1beta"])("/%s", (apiVersion) => {
    it("answers complete and streamed", async () => {
      const { fetch, sent } = recordingFetch();
      const { models } = connect({ apiVersion, fetch });
      expect(textOf(await models.generateContent(say("Hello")))).toBe("You said: Hello");
      expect(streamedText(await all(await models.generateContentStream(say("Hello"))))).toBe("You said: Hello");
      const folder = `${playground().url}/${apiVersion}/models`;
      expect(sent.map(({ url }) => url)).toEqual([
        `${folder}/demo-chat:generateContent`,
        `${folder}/demo-chat:streamGenerateContent?alt=sse`,
      ]);
    });

    it("takes the name of a model with its prefix", async () => {
      const { models } = connect({ apiVersion });
      expect(textOf(await models.generateContent({ ...say("Hello"), model: "models/demo-chat" }))).toBe(
        "You said: Hello",
      );
    });
  });

  it.each(["header", "query"])("takes the key by %s", async (way) => {
    const keyed: typeof fetch = (input, init) => {
      const request = new Request(input, init);
      const url = new URL(request.url);
      if (way === "query") {
        url.searchParams.set("key", request.headers.get("x-goog-api-key") ?? "");
        request.headers.delete("x-goog-api-key");
      }
      return fetch(new Request(url, request));
    };
    expect(textOf(await connect({ fetch: keyed }).models.generateContent(say("Hello")))).toBe("You said: Hello");
    const error = await errorOf(connect({ fetch: keyed, apiKey: "sk-3f9a1c" }).models.generateContent(say("Hello")));
    expect(wireError(error)).toMatchObject({ code: 401, status: "UNAUTHENTICATED" });
    expect(error.message).not.toContain("3f9a1c");
  });
}
