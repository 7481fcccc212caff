/** Limits concurrent runs. Serves waiting keys in turn, so that no key blocks the others. */

export interface Turns {
  /** Waits for a turn of the key, and returns the function that ends the turn. Rejects with the signal's reason when that fires first. */
  take(keyId: string, signal: AbortSignal): Promise<() => void>;
}

/** A key that holds turns or waits for turns. Removed when it does neither. */
interface Tenant {
  held: number;
  /** Functions that each start a waiting run, in order of arrival. */
  readonly waiting: Set<() => void>;
}

/**
 * Makes turns, at most `max` at a time. A key gets a turn only while more turns are free than the key holds: a single key gets half of
 * the turns, rounded up. A free turn goes to the waiting key with the fewest turns, and among these to the key whose last run began or
 * ended longest ago.
 */
export function turns(max: number): Turns {
  // The keys in the order of service.
  const tenants = new Map<string, Tenant>();
  let free = max;

  const mayTake = ({ held }: Tenant): boolean => held < free;

  function serveLast(keyId: string, tenant: Tenant): void {
    tenants.delete(keyId);
    if (tenant.held > 0 || tenant.waiting.size > 0) tenants.set(keyId, tenant);
  }

  function take(keyId: string, tenant: Tenant): () => void {
    free -= 1;
    tenant.held += 1;
    serveLast(keyId, tenant);
    return () => {
      free += 1;
      tenant.held -= 1;
      serveLast(keyId, tenant);
      serveNext();
    };
  }

  function serveNext(): void {
    let next: Tenant | undefined;
    for (const tenant of tenants.values())
      if (tenant.waiting.size > 0 && mayTake(tenant) && (!next || tenant.held < next.held)) next = tenant;
    if (!next) return;
    const [start] = next.waiting;
    start?.();
    serveNext();
  }

  return {
    async take(keyId, signal) {
      signal.throwIfAborted();
      const tenant = tenants.get(keyId) ?? { held: 0, waiting: new Set<() => void>() };
      if (tenant.waiting.size === 0 && mayTake(tenant)) return take(keyId, tenant);
      const { promise, resolve, reject } = Promise.withResolvers<() => void>();
      const start = (): void => {
        tenant.waiting.delete(start);
        resolve(take(keyId, tenant));
      };
      const giveUp = (): void => {
        tenant.waiting.delete(start);
        if (tenant.held === 0 && tenant.waiting.size === 0) tenants.delete(keyId);
        reject(signal.reason as Error);
      };
      tenant.waiting.add(start);
      if (!tenants.has(keyId)) tenants.set(keyId, tenant);
      signal.addEventListener("abort", giveUp);
      return promise.finally(() => signal.removeEventListener("abort", giveUp));
    },
  };
}
