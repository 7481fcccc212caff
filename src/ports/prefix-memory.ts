/** The port for memories of prompt prefixes: which upstreams have probably cached the beginning of a conversation. */

/** A prefix keeps its place in a memory for this many lifetimes: some vendors cache for longer than they promise. */
export const RETAINED_LIFETIMES = 12;

/** The prefix of a prompt, by its fingerprint. */
export interface NotedPrefix {
  /** The fingerprint: an integer from 0 to 2⁵³ − 1. It depends on the tenant. */
  readonly id: number;
  /** The time for which the vendor promises to cache the prefix after each use, in milliseconds. */
  readonly lifetimeMs: number;
}

/** An upstream that has used a prefix. */
export interface PrefixUse {
  /** The upstream's name in the route. */
  readonly upstream: string;
  /** The time since the upstream used the prefix last, in milliseconds. */
  readonly ageMs: number;
  /** The lifetime, as it was noted. */
  readonly lifetimeMs: number;
}

/**
 * Remembers which upstreams have used which prefixes. It holds fingerprints and names, and no text of a prompt. A memory that rejects or is
 * slow costs only money: the route then chooses without it.
 */
export interface PrefixMemory {
  /**
   * Returns the uses of each prefix, in the order of `ids`; an empty list for an unknown prefix. Must not return what was noted for another
   * tenant.
   */
  find(
    tenant: string,
    ids: readonly number[],
  ): readonly (readonly PrefixUse[])[] | Promise<readonly (readonly PrefixUse[])[]>;
  /**
   * Notes that an upstream uses prefixes now. Keeps the uses of other upstreams. A prefix may be forgotten at any time, and is forgotten
   * `RETAINED_LIFETIMES` lifetimes after its last use.
   */
  note(tenant: string, upstream: string, prefixes: readonly NotedPrefix[]): void | Promise<void>;
}
