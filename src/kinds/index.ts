/** The kinds of generation. A new kind is a folder beside this file, a verb of `ModelBackend`, and a row here. */

import type { Kinds } from "../pipeline/kind.ts";
import { chat } from "./chat/index.ts";
import { embedding } from "./embedding/index.ts";
import { image } from "./image/index.ts";

export const KINDS: Kinds = { chat, image, embedding };
