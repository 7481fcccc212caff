/** A value that expires: laws over random schedules of calls, answers and failures. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { manualClock } from "../../src/testing/laws/index.ts";
import { type Expiring, Renewing } from "../../src/upstreams/renewing.ts";

const LIMIT_MS = 10_000;

type Step =
  | { readonly type: "wait"; readonly ms: number }
  | { readonly type: "get" | "refuse" }
  | { readonly type: "answer"; readonly lifeMs: number | undefined }
  | { readonly type: "fail" };

const step = fc.oneof<fc.Arbitrary<Step>[]>(
  fc.record({ type: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 3 * LIMIT_MS }) }),
  fc.record({ type: fc.constant("wait" as const), ms: fc.integer({ min: 60_000, max: 4_000_000 }) }),
  fc.record({ type: fc.constantFrom("get" as const, "get" as const, "refuse" as const) }),
  fc.record({
    type: fc.constant("answer" as const),
    lifeMs: fc.option(fc.integer({ min: 1, max: 3_600_000 }), { nil: undefined }),
  }),
  fc.record({ type: fc.constant("fail" as const) }),
);

it("returns no value that has expired at once, and has one request running that is not given up", () =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const clock = manualClock();
      const running: { readonly startedAt: number; readonly answer: PromiseWithResolvers<Expiring<number>> }[] = [];
      const expiries = new Map<number, number>();
      const waits: Promise<unknown>[] = [];
      const broken: string[] = [];
      let count = 0;
      /** The newest request, until it has ended. */
      let newest: (typeof running)[number] | undefined;
      const renewing = new Renewing<number>(
        () => {
          // Requests begin when nothing runs that is younger than the limit.
          if (clock.now() - (newest?.startedAt ?? 0) < LIMIT_MS) broken.push("Two requests ran at a time.");
          const answer = Promise.withResolvers<Expiring<number>>();
          newest = { startedAt: clock.now(), answer };
          running.push(newest);
          return answer.promise;
        },
        () => clock.now(),
        LIMIT_MS,
      );
      let last: number | undefined;
      for (const one of steps) {
        if (one.type === "wait") await clock.advance(one.ms);
        else if (one.type === "answer" || one.type === "fail") {
          const request = running.pop();
          if (request === newest) newest = undefined;
          // An earlier request that was given up answers later, or never.
          if (one.type === "fail") request?.answer.reject(new Error("Failed."));
          else if (request) {
            const value = ++count;
            const expiresAt = one.lifeMs === undefined ? undefined : clock.now() + one.lifeMs;
            expiries.set(value, expiresAt ?? Number.POSITIVE_INFINITY);
            request.answer.resolve({ value, expiresAt });
          }
          await clock.advance(0);
        } else if (one.type === "get") {
          const got = renewing.get();
          if (got instanceof Promise) waits.push(got.catch(() => undefined));
          else {
            if ((expiries.get(got) ?? 0) <= clock.now()) broken.push("The value had expired.");
            last = got;
          }
        } else if (last !== undefined) {
          const refused = last;
          waits.push(
            renewing.after(refused).then(
              (next) => {
                if (next === refused) broken.push("The refused value came back.");
              },
              () => {},
            ),
          );
          await clock.advance(0);
        }
      }
      for (const { answer } of running.splice(0)) answer.reject(new Error("Failed."));
      await Promise.all(waits);
      expect(broken).toEqual([]);
    }),
    { numRuns: 300 },
  ));

it("is renewed after four fifths of a short life, and after a refusal only when the last one is some seconds old", async () => {
  const clock = manualClock();
  let asked = 0;
  const renewing = new Renewing(
    async () => await Promise.resolve({ value: ++asked, expiresAt: clock.now() + 100_000 }),
    () => clock.now(),
    LIMIT_MS,
  );
  expect(await renewing.get()).toBe(1);
  await clock.advance(79_999);
  expect([renewing.get(), asked]).toEqual([1, 1]);
  await clock.advance(1);
  expect([renewing.get(), renewing.get(), asked]).toEqual([1, 1, 2]);
  await clock.advance(0);
  expect(renewing.get()).toBe(2);
  expect(await renewing.after(1)).toBe(2);
  expect([await renewing.after(2), await renewing.after(3)]).toEqual([3, undefined]);
  await clock.advance(10_000);
  expect(await renewing.after(3)).toBe(4);
});

/** A value that is asked for by hand: each request waits for the next answer. */
function byHand() {
  const clock = manualClock();
  const requests: PromiseWithResolvers<Expiring<string>>[] = [];
  const refusals: boolean[] = [];
  const renewing = new Renewing<string>(
    (isRefused) => {
      refusals.push(isRefused);
      const request = Promise.withResolvers<Expiring<string>>();
      requests.push(request);
      return request.promise;
    },
    () => clock.now(),
    LIMIT_MS,
  );
  const answer = async (index: number, value: string): Promise<void> => {
    requests[index]?.resolve({ value, expiresAt: undefined });
    await clock.advance(0);
  };
  return { clock, renewing, refusals, answer };
}

it("is waited for by all who were refused while it is renewed", async () => {
  const { clock, renewing, refusals, answer } = byHand();
  void renewing.get();
  await answer(0, "one");
  const first = renewing.after("one");
  await clock.advance(5_000);
  const others = [renewing.after("one"), renewing.after("one")];
  await answer(1, "two");
  expect(await Promise.all([first, ...others])).toEqual(["two", "two", "two"]);
  expect(refusals).toEqual([false, true]);
});

it("is renewed after a refusal although the clock was set back since the last one", async () => {
  let [now, asked] = [1e12, 0];
  const renewing = new Renewing(
    () => Promise.resolve({ value: ++asked, expiresAt: undefined }),
    () => now,
    LIMIT_MS,
  );
  await renewing.get();
  expect(await renewing.after(1)).toBe(2);
  expect(await renewing.after(2)).toBeUndefined();
  now -= 3_600_000;
  expect(await renewing.after(2)).toBe(3);
});

it("is kept when it comes later than the limit, unless a newer one has come", async () => {
  const { clock, renewing, refusals, answer } = byHand();
  void renewing.get();
  await clock.advance(LIMIT_MS);
  void renewing.get();
  await clock.advance(LIMIT_MS);
  void renewing.get();
  await answer(1, "two");
  expect(renewing.get()).toBe("two");
  await answer(0, "one");
  expect(renewing.get()).toBe("two");
  await answer(2, "three");
  expect([renewing.get(), refusals.length]).toEqual(["three", 3]);
});
