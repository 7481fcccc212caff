/** What a stage is opened with in another runtime. */

import type { GatewayOptions, ModelBackend } from "../../../src/index.ts";

/** The methods of a backend that generate something. */
export const GENERATORS: readonly Generator[] = ["chat", "image", "embed"];

export type Generator = "chat" | "image" | "embed";

export interface Opening {
  readonly prefix: string;
  /** The first moment of a clock that is wound by hand; undefined is the machine's own. */
  readonly clockStart: number | undefined;
  /** Whether the backend tells its models. */
  readonly models: boolean;
  /** What the backend can generate. */
  readonly generators: readonly Generator[];
  readonly hangUp: NonNullable<ModelBackend["hangUp"]>;
  /** Packed, as JSON: its functions stay where they are, and are called from afar. */
  readonly options: string;
}

/** The options that `Opening.options` holds. */
export type PlainOptions = Omit<GatewayOptions, "backend" | "quotas" | "clock" | "onFailure">;
