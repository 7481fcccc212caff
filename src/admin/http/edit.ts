/** Refuses an edit when somebody else has changed what its user has seen. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type Told, refused } from "./operation.ts";

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

/** Holds a change to the state that its user has seen. */
export function expects<Seen>(
  ifMatch: string | undefined,
  tagOfSeen: (seen: Seen) => string,
): { readonly holds: (seen: Seen) => boolean; readonly in: (change: () => Promise<Told>) => Promise<Told> } {
  let isStale = false;
  return {
    holds: (seen) => {
      isStale = ifMatch !== undefined && ifMatch !== "*" && !tagsIn(ifMatch).includes(tagOfSeen(seen));
      return !isStale;
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
