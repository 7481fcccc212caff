/** Reads the slash commands at the start of a message, which make the demo fail, wait or repeat. */

import { GatewayError, type GatewayErrorCode } from "../index.ts";

/** The commands of a message, and the rest of its text. */
export interface Commands {
  /** `/repeat N`: answer with N words. */
  readonly repeat?: number;
  /** `/delay MS`: pause between words. */
  readonly delayMs: number;
  /** `/silent MS`: say nothing before the first event. */
  readonly silentMs: number;
  /** `/fail CODE`: fail before the first event. */
  readonly fail?: GatewayError;
  /** `/break CODE`: fail in the middle of the answer. */
  readonly break?: GatewayError;
  /** `/block`: find the prompt unsafe, and give no answer. */
  readonly block?: true;
  /** The message without its commands. */
  readonly text: string;
}

const MAX_WORDS = 1_000_000;
const MAX_MS = 600_000;
const MAX_COMMANDS = 100;

/** Reads up to 100 commands from the start of a message: `/delay 20 /repeat 100`. */
export function readCommands(message: string): Commands {
  let commands: Commands = { delayMs: 0, silentMs: 0, text: message };
  for (let read = 0; ; read++) {
    const [whole, name, argument = ""] =
      /^\s*\/(?:block(?!\S)|(repeat|delay|silent|fail|break)\b[ \t]*(\S*))/.exec(commands.text) ?? [];
    if (whole === undefined) return { ...commands, text: commands.text.trim() };
    if (read === MAX_COMMANDS)
      throw new GatewayError("invalid_request", `A message may begin with at most ${MAX_COMMANDS} commands.`);
    const text = commands.text.slice(whole.length);
    switch (name) {
      case undefined:
        commands = { ...commands, text, block: true };
        break;
      case "repeat":
        commands = { ...commands, text, repeat: count(name, argument, MAX_WORDS) };
        break;
      case "delay":
        commands = { ...commands, text, delayMs: count(name, argument, MAX_MS) };
        break;
      case "silent":
        commands = { ...commands, text, silentMs: count(name, argument, MAX_MS) };
        break;
      case "fail":
        commands = { ...commands, text, fail: failure(name, argument) };
        break;
      default:
        commands = { ...commands, text, break: failure("break", argument) };
    }
  }
}

function count(name: string, argument: string, max: number): number {
  const value = /^\d+$/.test(argument) ? Number(argument) : Number.NaN;
  if (value >= 0 && value <= max) return value;
  throw new GatewayError("invalid_request", `/${name} needs a whole number from 0 to ${max}, not "${argument}".`);
}

const BY_STATUS: Readonly<Record<string, GatewayErrorCode>> = {
  "400": "invalid_request",
  "401": "invalid_api_key",
  "403": "model_not_allowed",
  "404": "model_not_found",
  "413": "body_too_large",
  "429": "rate_limited",
  "500": "backend_failed",
  "503": "backend_unavailable",
  "504": "deadline_exceeded",
};

function failure(name: string, argument: string): GatewayError {
  const code = Object.hasOwn(BY_STATUS, argument) ? BY_STATUS[argument] : undefined;
  if (!code)
    throw new GatewayError(
      "invalid_request",
      `/${name} needs one of ${Object.keys(BY_STATUS).join(", ")}, not "${argument}".`,
    );
  const message = `The demo was asked to fail with ${argument}.`;
  return new GatewayError(code, message, code === "rate_limited" ? { retryAfterMs: 1_000 } : {});
}
