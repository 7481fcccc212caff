/** By which id callers know an answer. */

import type { AnswerEvent } from "../../model/event.ts";

type Start = Extract<AnswerEvent, { type: "start" }>;

/**
 * The backend's own id of an answer. An upstream's of another format is of a form that callers of this one may not take for an id,
 * and it names nothing that they could ask for: they get the gateway's own.
 */
export const answerId = ({ id, native }: Start, dialect: string, own: string): string =>
  native === undefined || native === dialect ? (id ?? own) : own;
