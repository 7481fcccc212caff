/** The errors, values and promises of a hostile or broken function of a host, for all ports. */

import type { Random } from "../trial/random.ts";
import { INSIDE } from "./stage.ts";

const boom = (): never => {
  throw new Error(INSIDE);
};

const trapped = (): object =>
  new Proxy(
    {},
    Object.fromEntries(
      ["get", "has", "getPrototypeOf", "ownKeys", "getOwnPropertyDescriptor"].map((trap) => [trap, boom] as const),
    ),
  );

const endlessCauses = (): Error => {
  const error = new Error(INSIDE);
  error.cause = error;
  return error;
};

const cyclic = (): object => {
  const object: Record<string, unknown> = { type: "text-delta", text: "x" };
  object["self"] = object;
  return object;
};

/** Things to throw, or to reject with. */
const THROWN: [() => unknown, ...(() => unknown)[]] = [
  () => new Error(INSIDE),
  () => endlessCauses(),
  () => Object.assign(new Error(INSIDE), { code: "ECONNRESET" }),
  () => Object.assign(new Error(INSIDE), { name: "TimeoutError" }),
  () => new RangeError(INSIDE),
  () => INSIDE,
  () => undefined,
  () => null,
  () => Symbol(INSIDE),
  () => trapped(),
  () => Object.defineProperty(new Error(INSIDE), "message", { get: boom }),
  () => Object.defineProperty(new Error(INSIDE), "stack", { get: boom }),
  () => ({ name: "GatewayError", code: "invalid_request", message: INSIDE }),
  () => new AggregateError([new Error(INSIDE)], INSIDE),
];

/** Values that no function should return. */
const RETURNED: [() => unknown, ...(() => unknown)[]] = [
  () => undefined,
  () => null,
  () => 0,
  () => -1,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => 2 ** 53,
  () => 1e308,
  () => 10n,
  () => "",
  () => "nonsense",
  () => true,
  () => Symbol("nonsense"),
  () => () => "nonsense",
  () => [],
  () => [null],
  () => ({}),
  () => Object.create(null) as object,
  () => cyclic(),
  () => trapped(),
  () => new Map(),
  () => new Uint8Array(3),
  () => Object.freeze({ granted: Number.NaN }),
];

export const thrown = (random: Random): unknown => random.pick(THROWN)();
export const nonsense = (random: Random): unknown => random.pick(RETURNED)();

// oxlint-disable-next-line unicorn/no-thenable -- imitates a promise of another library
const thenable = (then: unknown): object => ({ then });

const settlingTwice =
  (random: Random) =>
  (resolve: (value: unknown) => void, reject: (error: unknown) => void): void => {
    resolve(nonsense(random));
    reject(thrown(random));
  };

/** The behaviours of a hostile function. */
export type Manner =
  | "throws"
  | "rejects"
  | "rejects later"
  | "hangs"
  | "answers nonsense"
  | "returns nonsense"
  | "is a hostile thenable";

export const MANNERS: readonly [Manner, ...Manner[]] = [
  "throws",
  "rejects",
  "rejects later",
  "hangs",
  "answers nonsense",
  "returns nonsense",
  "is a hostile thenable",
];

/** Behaves as a hostile function: returns a value or a promise, or throws. */
export function misbehaving(manner: Manner, random: Random): unknown {
  switch (manner) {
    case "throws":
      throw thrown(random);
    case "rejects":
      return Promise.reject(thrown(random));
    case "rejects later": {
      const error = thrown(random);
      return new Promise((_resolve, reject) => void setImmediate(reject, error));
    }
    case "hangs":
      return new Promise(() => {});
    case "answers nonsense":
      return Promise.resolve(nonsense(random));
    case "returns nonsense":
      return nonsense(random);
    case "is a hostile thenable":
      return random.pick<() => object>([
        () => thenable(boom),
        () => thenable(1),
        () => thenable(settlingTwice(random)),
      ])();
    default:
      return manner satisfies never;
  }
}
