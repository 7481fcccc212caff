/** Responses over a WebSocket, which each host opens in its own way. */

import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { aborted } from "../aborted.ts";
import { errorCodeOf, openSocket, responseOf, type SocketClient, textOf } from "../drivers/socket.ts";
import { Cues } from "../hosts/cues.ts";
import { KEY, type Mount, openStage, type Play, plays, type Stage } from "../hosts/stage.ts";

const USAGE = { inputTokens: 3, outputTokens: 5 };
const said: Play = plays("One ", "two", { type: "finish", reason: "stop", usage: USAGE });

const BEARER = { authorization: `Bearer ${KEY}` };

const open = (stage: Stage, headers: Readonly<Record<string, string>> = BEARER): Promise<SocketClient> =>
  openSocket(stage.host.url ?? "", headers, stage.path("/v1/responses"));

/** Asks for a WebSocket without the key of its handshake. Returns the beginning of the answer. */
async function brokenUpgrade(stage: Stage): Promise<string> {
  const { hostname, port, host } = new URL(stage.host.url ?? "");
  const socket = connect(Number(port), hostname);
  const head = [
    `GET ${stage.path("/v1/responses")} HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: ${BEARER.authorization}`,
  ];
  const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
  socket.write([...head, ...upgrade, "", ""].join("\r\n"));
  const [answer] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return answer.toString();
}

export function socketsSuite(mount: Mount): void {
  it("are answered in turns, each charged like a call", async () => {
    await using stage = await openStage(mount, { play: said, keys: [{ apiKey: "sk-metered", granted: 100_000 }] });
    await using client = await open(stage, { authorization: "Bearer sk-metered" });
    for (let turn = 1; turn <= 2; turn++) {
      const events = await client.turn({ input: "Count.", store: false });
      expect(events[0]?.type).toBe("response.created");
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_event, index) => index));
      expect([textOf(events), responseOf(events)["status"]]).toEqual(["One two", "completed"]);
      expect((await stage.quotas.balance("sk-metered"))?.used).toBe(8 * turn);
    }
  });

  it("go on from the last response, which no store keeps", async () => {
    await using stage = await openStage(mount, { play: said });
    await using client = await open(stage);
    const first = responseOf(await client.turn({ input: "My name is Ann.", store: false }));
    await client.turn({ input: "Who am I?", store: false, previous_response_id: first.id });
    expect(stage.backend.asked.messages.map(({ role, parts }) => [role, parts])).toEqual([
      ["user", [{ type: "text", text: "My name is Ann." }]],
      ["assistant", [{ type: "text", text: "One two" }]],
      ["user", [{ type: "text", text: "Who am I?" }]],
    ]);
  });

  it("refuse a key in the answer to the upgrade", async () => {
    await using stage = await openStage(mount, { play: said });
    const refused = open(stage, { authorization: "Bearer sk-unknown" });
    await expect(refused).rejects.toMatchObject({ status: 401, body: expect.stringContaining("invalid_api_key") });
  });

  it("hold no place for an upgrade that is not one", async () => {
    await using stage = await openStage(mount, { play: said, limits: { maxSockets: 2, maxSocketsPerKey: 2 } });
    for (let count = 0; count < 2; count++) expect(await brokenUpgrade(stage)).toMatch(/^HTTP\/1\.1 (?:400|426) /);
    await expect.poll(() => open(stage).then((client) => client[Symbol.asyncDispose]().then(() => true))).toBe(true);
  });

  it("cut the backend when the client leaves, and charge what was made", async () => {
    const cues = new Cues();
    const play: Play = async function* (_request, { signal }) {
      yield "One two three";
      await aborted(signal);
      cues.give("cut");
    };
    await using stage = await openStage(mount, { play, keys: [{ apiKey: "sk-metered", granted: 100_000 }] });
    await using client = await open(stage, { authorization: "Bearer sk-metered" });
    client.send({ type: "response.create", model: "m", input: "Count.", store: false });
    while ((await client.next()).type !== "response.output_text.delta");
    client.ws.terminate();
    await cues.wait("cut");
    await stage.settled;
    expect((await stage.quotas.balance("sk-metered"))?.used).toBeGreaterThan(0);
  });

  it("close when the gateway closes", async () => {
    await using stage = await openStage(mount, { play: said });
    await using client = await open(stage);
    await client.turn({ input: "Count.", store: false });
    await stage.host.gateway.close();
    expect((await client.closed)[0]).toBe(1001);
  });

  describe("a client that does not read", () => {
    it("stops its backend", async () => {
      let made = 0;
      const piece = "x".repeat(64 * 1024);
      const play: Play = async function* (_request, { signal }) {
        for (; made < 4_000 && !signal.aborted; made++) yield piece;
      };
      await using stage = await openStage(mount, { play });
      await using client = await open(stage);
      client.ws.pause();
      client.send({ type: "response.create", model: "m", input: "Count.", store: false });
      let [last, still] = [0, 0];
      const same = (): number => {
        still = made === last && last > 0 ? still + 1 : 0;
        last = made;
        return still;
      };
      await expect.poll(same, { interval: 20 }).toBeGreaterThan(5);
      expect(made).toBeLessThan(4_000);
    });
  });

  it("tell an error as a message, and go on", async () => {
    await using stage = await openStage(mount, { play: said });
    await using client = await open(stage);
    const refused = await client.turn({ input: "Go on.", previous_response_id: "resp_none", store: false });
    expect(refused).toMatchObject([{ type: "error", status: 404, error: { param: "previous_response_id" } }]);
    expect(errorCodeOf(refused)).toBe("previous_response_not_found");
    expect(textOf(await client.turn({ input: "Count.", store: false }))).toBe("One two");
  });
}
