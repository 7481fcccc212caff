/** Decides which error messages of an upstream callers read, and removes from them what belongs to the host. */

import { changedError, type GatewayError, type GatewayErrorCode, isInOwnWords, type VendorReason } from "../errors.ts";

export interface MessageRules {
  /** Shows all messages (true) or none (false). Default: cleaned messages about the caller's own request. */
  readonly show: boolean | undefined;
  /** The upstream's name of the model, and the name that callers read in place of it. */
  readonly rename?: Rename | undefined;
}

interface Rename {
  readonly from: string;
  readonly to: string;
}

/** The codes that concern the caller's own request: the upstream's statuses 400, 404, 413 and 422. */
const OF_REQUEST: ReadonlySet<GatewayErrorCode> = new Set([
  "invalid_request",
  "content_refused",
  "failed_precondition",
  "body_too_large",
  "model_not_found",
]);
const STATUSES: ReadonlySet<number | undefined> = new Set([400, 404, 413, 422, undefined]);

/** Matches messages about the host's account. They are shown only if the host asks for all messages. */
const ABOUT_ACCOUNT =
  /\b(?:api[ _-]?keys?|credentials?|billing|credits?|accounts?|organi[sz]ations?|subscriptions?|quotas?|payments?|unauthori[sz]ed|authenticat\w*|permissions?|free tier|your (?:plan|tier|region|country)|location is not supported)\b/i;

/**
 * Returns the upstream's message as callers may read it; undefined for a message that stays hidden.
 *
 * @param message Already without the secrets that the host has configured.
 * @param status The status of the upstream's response; undefined for an error in the middle of a stream that names none.
 */
export function shownMessage(
  message: string | undefined,
  code: GatewayErrorCode,
  { show, rename }: MessageRules,
  status?: number,
): string | undefined {
  // A 403 may name the host's key and team, also where it is about the caller's prompt.
  if (!message || show === false || status === 403) return undefined;
  const renamed = rename ? withModel(message, rename) : message;
  if (show) return renamed;
  if (!OF_REQUEST.has(code) || !STATUSES.has(status) || ABOUT_ACCOUNT.test(message)) return undefined;
  return cleaned(renamed) || undefined;
}

/** The most characters of a vendor's reason, as JSON. */
const MAX_REASON_CHARS = 4_096;

/**
 * Returns a vendor's reason if callers may read all of it unchanged: a changed text could mean something else.
 *
 * @param shown Returns a text as callers may read it.
 */
export function shownReason(
  reason: VendorReason | undefined,
  shown: (text: string) => string | undefined,
): VendorReason | undefined {
  const json = JSON.stringify(reason ?? {});
  // Read names such as `account_id` and `projectId` as the words of a sentence, each before its value.
  const words = json.replaceAll(/\\.|_|":|(?<=[a-z])(?=[A-Z])/g, " ");
  return json.length <= MAX_REASON_CHARS && shown(json) === json && shown(words) === words ? reason : undefined;
}

/** Returns an upstream's error with the caller's name of the model in its words. */
export function withCallerModel(error: GatewayError, rename: Rename): GatewayError {
  // A model may be called "model": such a word of the gateway is no name.
  if (isInOwnWords(error)) return error;
  const message = withModel(error.message, rename);
  const reason = shownReason(error.reason, (text) => withModel(text, rename));
  return message === error.message && reason === error.reason ? error : changedError(error, message, { reason });
}

/** Replaces the upstream's name of a model, with or without its vendor, and with what follows it, such as a date. */
function withModel(text: string, { from, to }: Rename): string {
  const names = [from, from.slice(from.lastIndexOf("/") + 1)].filter((name) => name !== "");
  const either = names.map((name) => name.replaceAll(/[^\w\s]/g, String.raw`\$&`)).join("|");
  return text.replaceAll(new RegExp(String.raw`(?<![\w-])(?:${either})(?:[\w:@-]|\.(?=\w))*`, "gi"), () => to);
}

const ADDRESS = "[address]";
const PATH = "[path]";
const ACCOUNT = "[account]";
const KEY = "[redacted]";

/**
 * For each kind of word that is removed: a pattern, its replacement, and a second pattern that must match too. The patterns take linear
 * time, and a word is short.
 */
const REMOVED: readonly (readonly [pattern: RegExp, by: string, also?: RegExp])[] = [
  [/:\/\//, ADDRESS],
  [/@[\w-]+\.\w/, ADDRESS],
  [/\b(?:\d{1,3}\.){3}\d{1,3}\b/, ADDRESS],
  [/^(?:[\da-f]{0,4}:){2,8}[\da-f.]{0,15}$/i, ADDRESS, /[\da-f]/i],
  [/(?:^|:)localhost(?:[:/]|$)/i, ADDRESS],
  [/^(?:[\w-]+\.)+[\w-]+:\d{1,5}(?:\/|$)/, ADDRESS],
  [/^[a-z][a-z\d-]*:(?:\d{4,5}|80|443)(?:\/|$)/i, ADDRESS],
  [/^(?:[\w-]+\.)+(?:com|net|org|io|ai|dev|cloud|local|internal|corp|lan|home|app|svc|cn|eu)(?:[:/]|$)/i, ADDRESS],
  [/^arn:|^\d{12}$|^project_?(?:number|id)?:\w/i, ACCOUNT],
  [/^(?:org|proj|acct|wrkspc)[-_]\w{6}/, ACCOUNT, /^org-|[\dA-Z]/],
  [/(?:^|\/)(?:projects|organizations|accounts|workspaces|tenants|subscriptions|deployments)[/:]\w/i, ACCOUNT],
  [/(?:^|:)(?:sk|pk|rk|gsk|xai|hf|r8|pplx|csk|nvapi|fw|ghp|glpat)[-_][\w*.…-]{3}/i, KEY],
  [/(?:^|:)(?:AIza|AKIA|ASIA|ya29\.|eyJ)[\w-]{6}/, KEY],
  // A key whose middle is hidden.
  [/\*{3}|\w…\w|\w\.{3}\w/, KEY],
  [/^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$|^[\da-f]{32,}$/i, KEY, /\d/],
  // The path of a vendor's route begins with its version.
  [/(?:^|:)(?:~|\.{1,2}|(?!\/v\d(?:alpha|beta)?\d*\/))\/[\w.@+-]+\/[\w.@+-]/, PATH],
  [/(?:^|:)\/(?:root|home|users|usr|opt|var|etc|tmp|app|srv|mnt|data)(?:\/|$)/i, PATH],
  [/(?:^|:)[a-z]:\\/i, PATH],
];

/** Starts of ids that callers know: of tool calls, requests, answers and files. */
const KNOWN_ID = /^(?:toolu|srvtoolu|call|req|msg|fc|resp|chatcmpl|file)[-_]/;

/** The most characters of a message that are cleaned, and of a word. A longer word is no part of a sentence. */
const MAX_CLEANED_CHARS = 4_096;
const MAX_WORD_CHARS = 512;

/** Removes addresses, e-mail addresses, paths of files, names of accounts, and all words that may be a key. */
function cleaned(text: string): string {
  return whole(text)
    .replaceAll(/\b(bearer|basic) +[^\s"'`]+/gi, `$1 ${KEY}`)
    .replaceAll(URL_LIKE, ADDRESS)
    .replaceAll(NAMED, `$1 ${ACCOUNT}`)
    .replaceAll(/[^\s"'`<>(){}[\],;|=]{5,}/g, (word) => {
      // Dots and colons behind a word belong to the sentence.
      const bare = word.replace(/[.:!?]{1,3}$/, "");
      const by = replacementOf(bare);
      return by === undefined ? word : by + word.slice(bare.length);
    });
}

/** Matches an address with its query, without the signs of the sentence behind it. */
const URL_LIKE = /[a-z][a-z\d+.-]{1,20}:\/\/[^\s"'`<>]+?(?=[.,;:!?)\]}]{0,3}(?:[\s"'`<>]|$))/gi;

/** Matches a project, a deployment or another part of the host's account, by its name in quotes or its number. */
const NAMED =
  /\b((?:project|team|workspace|tenant|deployment|resource|endpoint|cluster)(?: (?:id|name|number))?)[ :]{1,2}(?:(["'`])[^"'`]{1,256}\2|\d{5,30}\b)/gi;

/** Returns the beginning of a text, without a word that is cut in two: the rest of the word would not be recognised. */
function whole(text: string): string {
  if (text.length <= MAX_CLEANED_CHARS) return text;
  const end = text.lastIndexOf(" ", MAX_CLEANED_CHARS);
  return text.slice(0, Math.max(0, end));
}

function replacementOf(word: string): string | undefined {
  if (word.length > MAX_WORD_CHARS) return KEY;
  for (const [pattern, by, also] of REMOVED) if (pattern.test(word) && (also?.test(word) ?? true)) return by;
  // A long word of letters in both cases and of several digits is probably random.
  const run = /[a-z\d+]{20,}/i.exec(word)?.[0] ?? "";
  const isRandom = /[a-z]/.test(run) && /[A-Z]/.test(run) && /\d\D*\d\D*\d/.test(run);
  return isRandom && !KNOWN_ID.test(word) ? KEY : undefined;
}
