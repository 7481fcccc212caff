/** The bytes that uploads hold at once: never more than the budget, all of them given back, and no request lost. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import type { Pieces } from "../drivers/driver.ts";
import { images } from "../drivers/images.ts";
import { type Bytes, CLEAR, padded } from "../formats/images/pictures.ts";
import { anyText, refusalOf, tooLarge } from "../formats/images/refusal.ts";
import { BEARER, EDITS } from "../formats/images/requests.ts";
import { chunked, FORM_TYPE, formBytes, partOf, wireForm } from "../formats/images/wire-form.ts";
import { Cues } from "../hosts/cues.ts";
import type { HostRequestInit } from "../hosts/host.ts";
import { drawn, type ImagePlay, type Mount, openStage, type Stage, type StageOptions } from "../hosts/stage.ts";
import { DEADLINE_MS, timedStage } from "./timed.ts";

const UPLOAD = formBytes([partOf("prompt", "A red hat"), partOf("image", padded(CLEAR, 20_000), "a.png")]);
const UPLOAD_BYTES = UPLOAD.length;
const HALF = UPLOAD.slice(0, UPLOAD_BYTES / 2);

/** The same upload in both ways, which are booked differently: at once, and as its bytes arrive. */
const DECLARED: HostRequestInit = wireForm(UPLOAD, { "content-length": String(UPLOAD_BYTES) });
const inChunks = (): HostRequestInit =>
  chunked(
    Array.from({ length: 10 }, (_, index) =>
      UPLOAD.slice((index * UPLOAD_BYTES) / 10, ((index + 1) * UPLOAD_BYTES) / 10),
    ),
  );

const busy = { status: 503, type: "server_error", code: "busy", param: null, message: anyText };

const fails = (error: Error): ImagePlay =>
  async function* () {
    yield* [];
    throw error;
  };

const upload = ({ request }: Stage, init: HostRequestInit): Promise<Response> => request(EDITS, init);

/** Limits that leave room for so many uploads. */
const room = (uploads: number): StageOptions => ({ limits: { maxBodyBytesInFlight: uploads * UPLOAD_BYTES } });

const drawsOne = (): Pieces =>
  async function* () {
    yield "A picture.";
  };

interface Stalled {
  readonly answer: Promise<Response>;
  readonly hangUp: () => void;
}

/** An upload of which one half has come, and then nothing; its room is taken. */
async function stalled(stage: Stage, isDeclared: boolean): Promise<Stalled> {
  const headers = {
    ...BEARER,
    "content-type": FORM_TYPE,
    ...(isDeclared && { "content-length": String(UPLOAD_BYTES) }),
  };
  for (;;) {
    const hangUp = new AbortController();
    const taken = Promise.withResolvers<void>();
    const body = new ReadableStream<Bytes>({
      start: (controller) => controller.enqueue(HALF),
      pull: () => taken.resolve(),
    });
    const answer = upload(stage, { method: "POST", headers, body, duplex: "half", signal: hangUp.signal });
    await taken.promise;
    // A probe on a connection that is there already would overtake the first request on a new one.
    await stage.looked;
    const answered = new AbortController();
    const tell = (): void => answered.abort();
    answer.then(tell, tell);
    // A probe may come first, and take the room: then it is the other that has to come back.
    while (!answered.signal.aborted) {
      const probe = await upload(stage, DECLARED);
      await probe.text();
      if (probe.status === 503) return { answer, hangUp: () => hangUp.abort() };
    }
  }
}

/** Uploads again and again, until there is room. */
async function findRoom(stage: Stage): Promise<void> {
  await expect
    .poll(
      async () => {
        const response = await upload(stage, DECLARED);
        await response.text();
        return response.status;
      },
      { interval: 1 },
    )
    .toBe(200);
}

export function uploadsSuite(mount: Mount): void {
  it("have room up to the last byte", async () => {
    await using exact = await openStage(mount, room(1));
    for (const init of [DECLARED, inChunks()]) expect((await upload(exact, init)).status).toBe(200);
    await using less = await openStage(mount, { limits: { maxBodyBytesInFlight: UPLOAD_BYTES - 1 } });
    expect(await refusalOf(await upload(less, DECLARED))).toEqual(tooLarge(null));
  });

  it.each([true, false])("hold their room until they are answered, and not longer (declared: %s)", async (declared) => {
    const cues = new Cues();
    await using stage = await openStage(mount, {
      ...room(1),
      async *imagePlay() {
        cues.give("drawing");
        await cues.wait("go on");
        yield drawn(0);
      },
    });
    const first = upload(stage, declared ? DECLARED : inChunks());
    await cues.wait("drawing");
    for (const init of [DECLARED, inChunks()]) {
      const response = await upload(stage, init);
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(Number(response.headers.get("retry-after-ms"))).toBeGreaterThan(0);
      expect(await refusalOf(response)).toEqual(busy);
    }
    cues.give("go on");
    expect((await first).status).toBe(200);
    await findRoom(stage);
  });

  describe.each([true, false])("that stop half-way leave nothing behind (declared: %s)", (declared) => {
    it("when the client hangs up", async () => {
      await using stage = await openStage(mount, room(1));
      const { answer, hangUp } = await stalled(stage, declared);
      hangUp();
      await Promise.allSettled([answer]);
      await findRoom(stage);
      expect(stage.failures).toEqual([]);
    });

    it("when the deadline passes", async () => {
      await using stage = await timedStage(mount, images, drawsOne, room(1).limits);
      const { answer } = await stalled(stage, declared);
      await stage.clock.advance(DEADLINE_MS);
      expect(await refusalOf(await answer)).toMatchObject({ status: 504, code: "deadline_exceeded" });
      await findRoom(stage);
    });

    it("when they are refused", async () => {
      const imagePlay = fails(new GatewayError("backend_failed", "Gone."));
      await using stage = await openStage(mount, { ...room(1), imagePlay });
      const broken = wireForm(UPLOAD.slice(0, -30));
      for (const init of [broken, DECLARED, broken, DECLARED]) expect((await upload(stage, init)).status).not.toBe(503);
    });
  });
}

export function crowdOfUploadsSuite(mount: Mount): void {
  it("of 200 clients at once stays inside the budget, and nobody is lost", async () => {
    const [CLIENTS, PLACES] = [200, 20];
    const cues = new Cues();
    let [drawing, most, answered] = [0, 0, 0];
    const settled = (): void => {
      // All have found a place by now, or been told that there is none.
      if (drawing + answered >= CLIENTS) cues.give("go on");
    };
    await using stage = await openStage(mount, {
      ...room(PLACES),
      async *imagePlay() {
        most = Math.max(most, ++drawing);
        settled();
        try {
          await cues.wait("go on");
          yield drawn(0);
        } finally {
          drawing--;
        }
      },
    });
    const refused: Response[] = [];
    const served: Response[] = [];
    const one = async (index: number): Promise<void> => {
      const response = await upload(stage, index % 2 === 0 ? DECLARED : inChunks());
      if (response.status !== 200) answered++;
      settled();
      (response.status === 200 ? served : refused).push(response);
      await response.text();
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, index) => one(index)));
    expect(served.length + refused.length).toBe(CLIENTS);
    expect(most).toBeLessThanOrEqual(PLACES);
    expect(served.length).toBeGreaterThan(0);
    for (const { status, headers } of refused) expect([status, headers.has("retry-after")]).toEqual([503, true]);
    expect(stage.backend.receivedForImages).toHaveLength(served.length);
    // Whoever comes back finds a place.
    for (let back = 0; back < PLACES; back++) await findRoom(stage);
    expect(stage.failures).toEqual([]);
  });
}
