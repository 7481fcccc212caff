/** The page's requests to the admin it belongs to. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { limitInWords, type UnitsLimit } from "../../../model/refused-units.ts";
import type { AdminPart, AdminUser } from "../../http/operation.ts";
import { amountInWords } from "./amounts.ts";

/** The last thing that happened, for the line below the header and for screen readers. */
export const notice: Signal<{ readonly text: string; readonly isError: boolean } | undefined> = signal(undefined);

/** The user, the parts of the admin that this host has, and the currency in which calls are recorded. */
export type Me = Required<AdminUser> & Readonly<Record<AdminPart, boolean>> & { readonly currency?: string };

export const me: Signal<Me | undefined> = signal(undefined);

/** True for a user who may change something. */
export const mayChange: ReadonlySignal<boolean> = computed(() => me.value?.readOnly === false);

/** True on a host with records of calls. */
export const hasCalls: ReadonlySignal<boolean> = computed(() => me.value?.calls ?? false);

/** False from the first refusal for the lack of a login to the next success. The page shows nothing meanwhile. */
export const isLoggedIn: Signal<boolean> = signal(true);

/** An answer, and the tag of the resource in it. */
export interface Answered<Body> {
  readonly body: Body;
  readonly tag: string | undefined;
}

/** A page of a list. */
export interface Listed<Row> {
  readonly data: readonly Row[];
  readonly next: string | null;
}

/** The error of an answer. The units of its limit stand in its message, too. */
interface Told {
  readonly message: string;
  readonly limit?: UnitsLimit | undefined;
}

/** Returns the message of an error, with the units of a limit in the currency of the page. */
const inWords = ({ message, limit }: Told): string =>
  limit ? limitInWords(limit, (units) => amountInWords(units)) : message;

/** A refusal of the server, or a failure. Its message is that of the server. */
export class Refusal extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Reads. Rejects with the reason of a refusal. */
export const read = <Body>(path: string): Promise<Answered<Body>> => ask("GET", path);

/** Writes choices as a query. Leaves out undefined ones. */
export const queryOf = (choices: Readonly<Record<string, string | undefined>>): string =>
  String(
    new URLSearchParams(
      Object.entries(choices).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    ),
  );

/** Reads a list, page by page. */
export async function* pagesOf<Row>(
  path: string,
  choices: Readonly<Record<string, string | undefined>> = {},
): AsyncGenerator<readonly Row[], void> {
  for (let after: string | null | undefined; after !== null;) {
    const { body }: { body: Listed<Row> } = await read(`${path}?${queryOf({ ...choices, limit: "1000", after })}`);
    yield body.data;
    after = body.next;
  }
}

/** Reads who the user is. */
export async function readMe(): Promise<void> {
  me.value = (await read<Me>("me")).body;
}

/** Reads again who the user is: another tab may have logged in as somebody else. A failure is shown only when the session has ended. */
export async function renewMe(): Promise<void> {
  if (!me.value || !isLoggedIn.value) return;
  await readMe().catch((error: unknown) => {
    if (!isLoggedIn.value) tellFailure(error);
  });
}

/**
 * Changes something. Rejects with the reason of a refusal.
 *
 * @param tag The tag of what the user has seen. The change is refused when it has been changed meanwhile.
 * @param isConfirmed False for what the server may ask about. Default: the page has asked its user by itself before what may be a mistake.
 */
export type Write = <Body>(
  method: string,
  path: string,
  body: object,
  tag?: string,
  isConfirmed?: boolean,
) => Promise<Answered<Body>>;

/** Returns the changes of one dialog. The same change again has the same key: the server makes it once, also when its answer was lost. */
export function writer(): Write {
  const keys = new Map<string, string>();
  return <Body>(...[method, path, body, tag, isConfirmed = true]: Parameters<Write>): Promise<Answered<Body>> => {
    const change = JSON.stringify([method, path, body, tag]);
    const key = keys.get(change) ?? crypto.randomUUID();
    keys.set(change, key);
    return ask<Body>(method, path, body, {
      "idempotency-key": key,
      ...(isConfirmed && { confirm: "true" }),
      ...(tag !== undefined && { "if-match": tag }),
    }).finally(() => void renewMe());
  };
}

async function ask<Body>(
  method: string,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answered<Body>> {
  const response = await send(path, {
    method,
    headers: { accept: "application/json", ...(body && { "content-type": "application/json" }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const answer = (await response.json().catch(() => unreached(method))) as Body;
  return { body: answer, tag: response.headers.get("etag") ?? undefined };
}

/** The time for a browser to save a file, in milliseconds. */
const KEEP_FILE_MS = 60_000;

/** Saves the CSV of a report as a file, under the name that the server gives. Rejects with the reason of a refusal. */
export async function saveCsv(path: string): Promise<void> {
  const response = await send(path, { headers: { accept: "text/csv" } });
  const [, name = "usage.csv"] = /filename="(.+)"/.exec(response.headers.get("content-disposition") ?? "") ?? [];
  saveFile(await response.blob().catch(() => unreached()), name);
}

/** Saves a file in the folder of the browser. */
export function saveFile(content: Blob, name: string): void {
  const file = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: file, download: name }).click();
  // Some browsers read the file only after the click.
  setTimeout(() => URL.revokeObjectURL(file), KEEP_FILE_MS);
}

/** Warns of a change without an answer of the admin. The shown list may be older than the change. */
const doubtOf = (method = "GET"): string =>
  method === "GET" ? "" : " The change may have been made: to see it, load the page again.";

function unreached(method?: string): never {
  throw new Error(`The server could not be reached.${doubtOf(method)}`);
}

const LOGGED_OUT = "You are not logged in any more.";

/** Says what an answer without an error of the admin means: it is of a proxy, or of the host's login. */
function foreignInWords(status: number, method?: string): string {
  if (status === 401) return LOGGED_OUT;
  return status === 403
    ? "The login of this server does not let you do this, or your session has ended: it has answered with 403."
    : `The server has failed: it has answered with ${status}.${doubtOf(method)}`;
}

/** Sends a request. Rejects with the reason of a refusal, and for an answer that is not of the accepted type. */
async function send(
  path: string,
  init: RequestInit & { headers: Readonly<Record<string, string>> },
): Promise<Response> {
  // The login of the host may lead to a page of its own, whose success is no answer.
  const response = await fetch(path, { redirect: "manual", ...init }).catch(() => unreached(init.method));
  const isOfType = (response.headers.get("content-type") ?? "").startsWith(init.headers["accept"] ?? "");
  const isLogin = response.type === "opaqueredirect" || (response.ok && !isOfType);
  if (isLogin || response.ok || response.status === 401) isLoggedIn.value = response.ok && !isLogin;
  if (isLogin) throw new Error(LOGGED_OUT);
  if (response.ok) return response;
  // A proxy answers with a page of its own, or with JSON of its own.
  const answer = (await response.json().catch(() => null)) as { readonly error?: Partial<Told> | null } | null;
  const { message: told, limit } = answer?.error ?? {};
  const { status } = response;
  const message = told === undefined ? foreignInWords(status, init.method) : inWords({ message: told, limit });
  // Only another dialog shows what somebody else has changed.
  throw new Refusal(status === 412 ? `${message} To see the change, cancel, and open this again.` : message, status);
}

/** True when the last load of the shown part has failed. Lists that were never loaded then show the failure. */
export const hasFailed: Signal<boolean> = signal(false);

/** True when the last load was refused for what its user has chosen, so that another try cannot help. */
export const isWrongChoice: Signal<boolean> = signal(false);

/**
 * Loads a list. The answers to an earlier load of the same list come to nothing: its user has chosen anew meanwhile.
 *
 * @param work Gets a function that returns false as soon as a later load has begun. The work then shows nothing.
 * @param clear Empties the list after a failure, so that no older answer stands below new choices.
 */
export type Load = (work: (isLatest: () => boolean) => Promise<void>, clear?: () => void) => Promise<void>;

/** The part that is shown. */
export const shownPart: Signal<string> = signal("keys");

/** The number of loads that run. */
export const pendingLoads: Signal<number> = signal(0);

/**
 * Returns the loads of one list.
 *
 * @param part The part of the list: its failures are shown only while the part is shown. Default: the part that is shown.
 */
export function loadsOf(part?: string): Load {
  let loads = 0;
  return async (work, clear) => {
    const own = ++loads;
    const isLatest = (): boolean => own === loads;
    let error: unknown;
    pendingLoads.value++;
    const isDone = await work(isLatest).then(
      () => true,
      (thrown: unknown) => {
        error = thrown;
        return false;
      },
    );
    pendingLoads.value--;
    if (!isLatest()) return;
    if (!isDone) clear?.();
    if ((part ?? shownPart.value) !== shownPart.value) return;
    if (isDone) notice.value = undefined;
    else tellFailure(error);
    hasFailed.value = !isDone;
    isWrongChoice.value = error instanceof Refusal && (error.status === 400 || error.status === 404);
  };
}

/** Loads a part that is read at once. */
export const load: Load = loadsOf();

/** A part of a view that is loaded apart, so that its failure stands in its place alone. */
export interface Apart<Body> {
  readonly of: Signal<{ readonly body?: Body; readonly error?: string } | undefined>;
  /** Loads the part. Never rejects. */
  readonly load: (path: string, isLatest: () => boolean) => Promise<void>;
}

export function apart<Body>(): Apart<Body> {
  const of: Apart<Body>["of"] = signal(undefined);
  return {
    of,
    async load(path, isLatest) {
      const loaded = await read<Body>(path).catch((error: unknown) => ({ error: messageOf(error) }));
      if (isLatest()) of.value = loaded;
    },
  };
}

/** Does what a user asks for, and shows how it ended. Resolves with true for a success. */
export async function attempt(work: () => Promise<string | void>): Promise<boolean> {
  try {
    const text = await work();
    notice.value = text ? { text, isError: false } : undefined;
    return true;
  } catch (error) {
    tellFailure(error);
    return false;
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function tellFailure(error: unknown): void {
  notice.value = { text: messageOf(error), isError: true };
}
