/** One frame of server-sent events, as text. */

import type { NativeFrame } from "../../model/event.ts";

/** A parser joins the lines of one frame's data, so each of them gets its own `data:` again. */
export const frameOf = ({ event, data }: NativeFrame): string =>
  `${event === undefined ? "" : `event: ${event}\n`}data: ${inLines(data)}\n\n`;

// Most data is one line, which takes no expression to see.
const inLines = (data: string): string =>
  data.includes("\n") || data.includes("\r") ? data.replaceAll(/\r\n|\r|\n/g, "\ndata: ") : data;
