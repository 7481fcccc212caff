/** The options of compaction, and the seal of its summaries. */

import { type EncryptionKey, ENCRYPTION_KEYS, Keyring } from "../../encryption.ts";
import { type Check, fieldsOf } from "../../options.ts";

/** Lets callers compact their conversations. */
export interface CompactionOptions {
  /** The secrets of the summaries. The first seals, and all open: a new first key leaves earlier summaries readable. */
  readonly keys: readonly EncryptionKey[];
  /** Asks the model for the summary, as the last message of the conversation. Default: `COMPACTION_PROMPT`. */
  readonly prompt?: string;
}

export const COMPACTION_SHAPE: Check = fieldsOf<CompactionOptions>({ keys: ENCRYPTION_KEYS, prompt: "string?" });

/** The default prompt for a summary. */
export const COMPACTION_PROMPT = `Write a summary of this conversation that lets another assistant continue the work without having seen it. Call no tool.
Include, as far as they occur: the goal and the wishes of the user; what was decided, and why; what was done, with the names of files, functions, commands and addresses; results and errors that still matter; the state of the work, and the next steps.
Keep exact names, numbers and quotations. Leave out everything that is no longer needed. Write only the summary.`;

/** The format of a request to compact, as backends and relays see it in `native`. */
export const COMPACT_FORMAT = "responses/compact";

/** Begins each sealed summary. */
export const SIGN = "pgc.";

/** Seals summaries for one API key, and opens them again. */
export class Compactions {
  readonly prompt: string;
  readonly #keys: Keyring;

  /** @throws RangeError for keys that are missing, have wrong names or lengths, or have the same name. */
  constructor({ keys, prompt = COMPACTION_PROMPT }: CompactionOptions) {
    this.#keys = new Keyring("responses.compaction", keys);
    this.prompt = prompt;
  }

  async seal(summary: string, keyId: string): Promise<string> {
    return SIGN + (await this.#keys.encrypt(summary, ["compaction", keyId]));
  }

  /** Returns the summary. Rejects for a text that was not sealed for this key, or has changed since. */
  open(sealed: string, keyId: string): Promise<string> {
    return this.#keys.decrypt(sealed.slice(SIGN.length), ["compaction", keyId]);
  }
}
