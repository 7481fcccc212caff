/** Sends a share of the keys, and keys with certain notes, to new upstreams of a route first. */

import { fnv } from "../../model/fnv.ts";
import { abandon, assertOptions, type Check, checkOf, listOf, mapOf, type NumberRule } from "../../options.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import type { CallOrder, OrderedUpstream, UpstreamOrder } from "./order.ts";

/** The options of `canary`. */
export interface CanaryOptions {
  /** The names of the new upstreams, as in the route. */
  readonly upstreams: readonly string[];
  /**
   * The share of the keys that go to the new upstreams, from 0 to 1; or a function that returns it for each call, so that it can grow while the
   * gateway runs. A function that throws or returns no such number counts as 0. Default: 0.
   */
  readonly share?: number | (() => number);
  /** The keys that always go to the new upstreams: those with one of these values in each of these fields of their `metadata`. */
  readonly metadata?: Readonly<Record<string, string | readonly string[]>>;
  /** Draws the keys. Two canaries of one salt draw the same keys. Default: the names of the upstreams. */
  readonly salt?: string;
}

/** The choice of the keys that try new upstreams. Made by `canary`. */
export interface Canary {
  /** Called once for each route that has it. Throws a TypeError for an upstream that the route does not have. */
  open(where: string, names: readonly string[], inner: UpstreamOrder): CanaryOrder;
}

/** A share of a whole. */
export const SHARE: NumberRule = { words: "a number from 0 to 1", allows: (value) => value >= 0 && value <= 1 };

const share: Check = (path, value) => typeof value === "function" || checkOf(SHARE)(path, value);
const values: Check = (path, value) => typeof value === "string" || listOf("string")(path, value);

/**
 * Sends a share of the keys to new upstreams of a route. A key always goes the same way: when the share grows, keys only join, and when it
 * shrinks, keys only leave. Calls of these keys ask the new upstreams first, and the others after a failure. All other keys never reach the
 * new upstreams. Throws a TypeError or a RangeError for wrong options.
 *
 * @example canary({ upstreams: ["next"], share: 0.05, metadata: { ring: "early" } });
 */
export function canary(options: CanaryOptions): Canary {
  assertOptions<CanaryOptions>("canary", options, {
    upstreams: listOf("string"),
    share: { optional: share },
    metadata: { optional: mapOf(values) },
    salt: "string?",
  });
  return {
    open(where, names, inner) {
      const unknown = options.upstreams.find((name) => !names.includes(name));
      if (unknown !== undefined)
        throw new TypeError(
          `${where}: canary: there is no upstream ${JSON.stringify(unknown)}, only ${names.join(", ")}.`,
        );
      if (options.upstreams.length === 0 || names.every((name) => options.upstreams.includes(name)))
        throw new TypeError(`${where}: canary: some upstreams must be new, and some not.`);
      return new CanaryOrder(options, inner);
    },
  };
}

export class CanaryOrder implements UpstreamOrder {
  readonly #options: CanaryOptions;
  readonly #inner: UpstreamOrder;
  readonly #names: ReadonlySet<string>;
  readonly #salt: string;

  constructor(options: CanaryOptions, inner: UpstreamOrder) {
    this.#options = options;
    this.#inner = inner;
    this.#names = new Set(options.upstreams);
    this.#salt = options.salt ?? options.upstreams.join(",");
  }

  /**
   * Returns the upstreams that a key may reach.
   *
   * @param upstreams Those that answer a kind of request. If all of them are new, every key may reach them.
   */
  permitted<Upstream extends OrderedUpstream>(key: ApiKey, upstreams: readonly Upstream[]): readonly Upstream[] {
    const usual = upstreams.filter(({ name }) => !this.#names.has(name));
    return usual.length === 0 || usual.length === upstreams.length || this.#takes(key) ? upstreams : usual;
  }

  /** Orders permitted upstreams: the new ones first. */
  order<Upstream extends OrderedUpstream>(
    call: CallContext,
    request: { readonly model: string },
    upstreams: readonly Upstream[],
  ): CallOrder<Upstream> | Promise<CallOrder<Upstream>> {
    const isNew = ({ name }: OrderedUpstream): boolean => this.#names.has(name);
    const ordered = this.#inner.order(call, request, upstreams);
    return ordered instanceof Promise ? ordered.then((one) => first(one, isNew)) : first(ordered, isNew);
  }

  #takes({ id, metadata }: ApiKey): boolean {
    const wanted = Object.entries(this.#options.metadata ?? {});
    const has = ([field, value]: (typeof wanted)[number]): boolean => {
      const own = metadata?.[field];
      return own !== undefined && (typeof value === "string" ? own === value : value.includes(own));
    };
    return (wanted.length > 0 && wanted.every(has)) || placeOf(`${this.#salt}\n${id}`) < this.#share();
  }

  #share(): number {
    const { share: given = 0 } = this.#options;
    if (typeof given === "number") return given;
    try {
      const told = given();
      abandon(told);
      return typeof told === "number" && SHARE.allows(told) ? told : 0;
    } catch {
      return 0;
    }
  }
}

function first<Upstream>(ordered: CallOrder<Upstream>, isNew: (upstream: Upstream) => boolean): CallOrder<Upstream> {
  const { upstreams } = ordered;
  return { ...ordered, upstreams: [...upstreams.filter(isNew), ...upstreams.filter((one) => !isNew(one))] };
}

/** Returns the place of a text between 0 and 1: always the same, and evenly spread (FNV-1a, and the last step of MurmurHash3). */
function placeOf(text: string): number {
  let hash = fnv(text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
