/** Refuses an edit when somebody else has changed what its user has seen. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { changedMeanwhile } from "../../stores/ledger.ts";
import type { Asked, Told } from "./operation.ts";
import { refused } from "./refusal.ts";

export const tagOf = (fields: unknown): string =>
  `"${bytesToHex(sha256(utf8ToBytes(JSON.stringify(fields)))).slice(0, 32)}"`;

/** Returns the tags of a header, as the admin has sent them: proxies that compress an answer mark its tag as weak, or with a suffix. */
const tagsIn = (ifMatch: string): readonly string[] =>
  ifMatch.split(/, */).map((tag) =>
    tag
      .trim()
      .replace(/^W\//, "")
      .replace(/-(?:gzip|br|zstd)"$/, '"'),
  );

/** True for an `If-Match` that names a state: the header may also ask for any state, with `*`. */
export const isTag = (ifMatch: string | undefined): ifMatch is string => ifMatch !== undefined && ifMatch !== "*";

/** True when an `If-Match` has the tag of a state. */
export const hasTag = (ifMatch: string, tag: string): boolean => tagsIn(ifMatch).includes(tag);

/** Holds a change to the state that its user has seen, and to its condition. */
export function expects<Seen extends object>(
  { ifMatch, condition = () => true }: Pick<Asked, "ifMatch" | "condition">,
  tagOfSeen: (seen: Seen) => string,
): {
  readonly holds: (seen: Seen) => boolean;
  /** Refuses an edit of another state at once. Nothing is asked about it, and it may be the state of the tag a moment later. */
  readonly assert: (seen: Seen, what: string) => void;
  readonly in: (change: () => Promise<Told>) => Promise<Told>;
} {
  let isStale = false;
  const holds = (seen: Seen): boolean => {
    isStale = (isTag(ifMatch) && !hasTag(ifMatch, tagOfSeen(seen))) || !condition(seen);
    return !isStale;
  };
  return {
    holds,
    assert: (seen, what) => {
      if (!holds(seen)) throw refused(412, changedMeanwhile(what).message);
    },
    in: async (change) => {
      try {
        return await change();
      } catch (error) {
        throw isStale ? refused(412, (error as Error).message) : error;
      }
    },
  };
}
