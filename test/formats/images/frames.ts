/** Reads an image stream frame by frame, and takes nothing but the exact framing: an event and a data line, or a comment. */

import { eventFraming, framesOf as allFramesOf, type Framing } from "../../drivers/frames.ts";

export interface Frame {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** What a keep-alive is read as. */
export const COMMENT: Frame = { event: "", data: {} };

const FRAME = /^event: ([a-z_.]+)\ndata: (\{[^\n\r\u0085\u2028\u2029]*\})$/;

function parseFrame(text: string): Frame {
  if (/^:[^\n\r]*$/.test(text)) return COMMENT;
  const [, event, json] = FRAME.exec(text) ?? [];
  if (event === undefined || json === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  const data = JSON.parse(json) as Frame["data"];
  if (event !== "error" && data["type"] !== event)
    throw new Error(`The event line says ${event}, the data ${String(data["type"])}.`);
  return { event, data };
}

export const framing: Framing<Frame> = eventFraming(parseFrame);

/** The frames of a whole stream but for its comments; the last one must be complete. */
export const framesOf = async (response: Response): Promise<Frame[]> =>
  (await allFramesOf(response, framing)).filter((frame) => frame !== COMMENT);
