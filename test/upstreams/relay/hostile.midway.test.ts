/** Upstreams that fail in the middle of a stream: the part that came is handed on and charged, and an error in the caller's format follows. */

import { setImmediate } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { streamsOf } from "../../drivers/driver.ts";
import {
  BROKEN_OFF,
  expectBrokenOff,
  FAILED,
  type Failing,
  LATE,
  LIMITED,
  NO_JSON,
  REFUSED_CONTENT,
  REFUSED_US,
} from "./hostile.expect.ts";
import { pairs, type Speaker } from "./hostile.formats.ts";
import { LIMIT, met, type Setting } from "./hostile.stage.ts";
import { endless, head, hundredMegabytes, type RawAnswer, STREAM_HEAD } from "./raw-upstream.ts";

type RelayTimeouts = NonNullable<RelayOptions["timeouts"]>;

interface Case extends Failing {
  /** The upstream's behaviour after its first words. */
  readonly does: string;
  readonly answer: (upstream: Speaker) => RawAnswer;
  readonly setting?: Setting;
}

const begun = ({ frames, begun }: Speaker): string => frames.slice(0, begun).join("");

/** Sends the first words, then these bytes, and ends. */
const then =
  (more: string | ((upstream: Speaker) => string)): Case["answer"] =>
  (upstream) =>
  (socket) =>
    socket.end(STREAM_HEAD + begun(upstream) + (typeof more === "string" ? more : more(upstream)));

/** Sends the first words, and then these bytes for ever. */
const thenForEver =
  (more: (upstream: Speaker) => string): Case["answer"] =>
  (upstream) =>
    endless(STREAM_HEAD + begun(upstream), more(upstream));

const PROMISED = head(200, { "content-type": "text/event-stream", "content-length": 99_999 });
const SILENT: Setting = { isSilent: true, relay: { timeouts: { betweenEventsMs: 5_000 } } };
const NO_EVENT = /next event did not come within 5000 ms/;

const FLAGGED = { message: "A rule of Team Seven forbids this.", metadata: { flagged_input: "x" } };

const CASES: readonly Case[] = [
  {
    does: "closes",
    answer: (upstream) => (socket) => socket.end(PROMISED + begun(upstream)),
    ...BROKEN_OFF,
    told: /other side closed/,
  },
  {
    does: "is reset",
    answer: (upstream) => (socket) =>
      socket.write(PROMISED + begun(upstream), () => void setImmediate().then(() => socket.resetAndDestroy())),
    ...BROKEN_OFF,
    told: /ECONNRESET|closed/,
  },
  { does: "ends too soon", answer: then(""), ...BROKEN_OFF, told: /broke off/ },
  { does: "ends in the middle of a frame", answer: then("data: {"), ...BROKEN_OFF, told: /broke off/ },
  {
    does: "shows a proxy's page",
    answer: then("<html>\n<h1>nginx</h1>\n</html>\n\n"),
    ...BROKEN_OFF,
    told: /broke off/,
  },
  {
    does: "sends garbage",
    answer: then("data: {{{\n\n"),
    ...NO_JSON,
    told: /JSON/,
  },
  {
    does: "tells of a limit",
    answer: then(({ errorFrame }) => errorFrame(429, "Account 7")),
    ...LIMITED,
    told: /Account 7/,
  },
  {
    does: "tells of the relay's key",
    answer: then(({ errorFrame }) => errorFrame(401, "Account 7")),
    ...REFUSED_US,
    told: /Account 7/,
  },
  {
    does: "refuses to go on by its policy",
    answer: then(`event: error\ndata: ${JSON.stringify({ error: { code: "content_filter", param: null } })}\n\n`),
    ...REFUSED_CONTENT,
    outcome: "refused",
    told: /content_filter/,
  },
  {
    does: "refuses to go on by its policy, with the 403 that hides its words",
    answer: then(`event: error\ndata: ${JSON.stringify({ error: { code: 403, ...FLAGGED } })}\n\n`),
    ...REFUSED_CONTENT,
    outcome: "refused",
    told: /of Team Seven/,
  },
  {
    does: "tells of its failure",
    answer: then(({ errorFrame }) => errorFrame(500, "Account 7")),
    ...FAILED,
    told: /Account 7/,
  },
  {
    does: "breaks its gzip off",
    answer: (upstream) => (socket) => {
      const bytes = gzipSync(
        begun(upstream) + Buffer.from(crypto.getRandomValues(new Uint8Array(20_000))).toString("hex"),
      );
      socket.end(
        Buffer.concat([
          Buffer.from(
            head(200, { "content-type": "text/event-stream", "content-encoding": "gzip", connection: "close" }),
          ),
          bytes.subarray(0, -10_000),
        ]),
      );
    },
    ...BROKEN_OFF,
    told: /end of file/,
  },
  {
    does: "falls silent",
    answer: (upstream) => (socket) => socket.write(STREAM_HEAD + begun(upstream)),
    setting: SILENT,
    ...LATE,
    told: NO_EVENT,
  },
  {
    does: "says no more than that it is there",
    answer: thenForEver(() => ": still here\n\n"),
    setting: SILENT,
    ...LATE,
    told: NO_EVENT,
  },
  {
    does: "says no more than that it is there, in its own format, until the call's deadline",
    answer: thenForEver(({ alive }) => alive),
    setting: { ...SILENT, gateway: { limits: { deadlineMs: 30_000 } } },
    code: "deadline_exceeded",
    message: "The request took longer than the gateway allows.",
    outcome: "deadline",
  },
  {
    does: "sends 100 MB in one event",
    answer: (upstream) => hundredMegabytes(STREAM_HEAD + begun(upstream)),
    ...FAILED,
    told: /longer than 16777216 characters/,
  },
];

describe.each(pairs)("to a caller of $name", (pair) => {
  const { upstream, caller } = pair;

  it.each(CASES)("an upstream that $does is $code", async ({ answer, setting, ...failing }) => {
    expect.hasAssertions();
    const answered = { text: upstream.first, charge: upstream.costs.first };
    for (const form of streamsOf(caller))
      await expectBrokenOff(pair, form, await met(pair, form, answer(upstream), setting), failing, answered);
  });

  it.each<[string, string, RelayTimeouts, RegExp]>([
    ["headers", "", { headersMs: 20_000 }, /headers did not come within 20000 ms/],
    ["event", STREAM_HEAD, { firstEventMs: 20_000 }, /first event did not come within 20000 ms/],
  ])(
    "no %s, while the caller is kept waiting by keep-alives, is an error at no charge",
    async (_what, bytes, timeouts, told) => {
      expect.hasAssertions();
      const nothing = { text: "", charge: { used: 0, estimated: 0 } };
      for (const form of streamsOf(caller)) {
        const outcome = await met(pair, form, (socket) => socket.write(bytes), { isSilent: true, relay: { timeouts } });
        await expectBrokenOff(pair, form, outcome, { ...LATE, told }, nothing);
      }
    },
  );
});

describe.each(pairs.filter(({ caller }) => caller.endless))("to a caller of $name", (pair) => {
  const { upstream, caller } = pair;

  it("a caller who hangs up takes the upstream along, and pays for what came", async () => {
    for (const form of streamsOf(caller)) {
      const silent: RawAnswer = (socket) => socket.write(STREAM_HEAD + begun(upstream));
      const { record, charge, failures } = await met(pair, form, silent, { leavesAfter: { text: upstream.first } });
      expect(record).toMatchObject({ outcome: "client-closed", status: 200, units: upstream.costs.first.used });
      expect([charge, failures]).toEqual([upstream.costs.first, []]);
    }
  });

  it("an endless answer ends where no count within its limit could be believed, in the caller's own format", async () => {
    const more = upstream.frames[upstream.begun - 1] ?? "";
    for (const form of streamsOf(caller)) {
      const { answer, charge, record, failures } = await met(pair, form, thenForEver(() => more)(upstream));
      // The frames of one read are counted together, up to 4,096 characters: at most 60 of them.
      expect(await form.textOf(answer())).toMatch(/^(?:Hel){600,660}$/);
      expect(await answer().text()).toMatch(/"max_tokens"|"MAX_TOKENS"|"length"|"max_output_tokens"/);
      expect(charge.used).toBeLessThan(20 * LIMIT);
      expect(charge.estimated).toBe(charge.used);
      expect(record).toMatchObject({ outcome: "completed", units: charge.used, certainty: "estimated" });
      expect(failures).toEqual([]);
    }
  });
});
