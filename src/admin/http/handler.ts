/** The admin's verbs over HTTP: the checks of a request, the log of changes, and the mount. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { H3, type H3Event, HTTPError } from "h3";
import * as v from "valibot";
import { describeError, GatewayError, type GatewayErrorCode } from "../../errors.ts";
import type { Mountable } from "../../gateway.ts";
import { type Answer, jsonAnswer, toResponse } from "../../http/answer.ts";
import { readText } from "../../http/body.ts";
import { fetched, pathIn, pathOf, queryOf } from "../../http/request.ts";
import { DEFAULT_LIMITS } from "../../limits.ts";
import { given, isJsonObject, parseJson } from "../../model/json.ts";
import { limitInWords, RefusedChange, RefusedUnits } from "../../model/refused-units.ts";
import {
  A_GATEWAY,
  assertOptions,
  CLOCK,
  manyLines,
  nearest,
  oneLine,
  portOf,
  tellHost,
  unknownName,
} from "../../options.ts";
import { retryBehind } from "../../pipeline/ask-store.ts";
import type { Mounted } from "../../pipeline/call.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import { type Clock, LATE, systemClock, within } from "../../ports/clock.ts";
import { UNMIGRATED } from "../../ports/quota-store.ts";
import type { RecordedAnswer, ReplayHolder, ReplayStore } from "../../ports/replay-store.ts";
import type { BodyLease } from "../../ports/shared-room.ts";
import { type CoreRoutes, plainPrefix } from "../../routes.ts";
import { isPassing } from "../../stores/away.ts";
import type { CallReader } from "../../stores/calls.ts";
import type { BudgetDirectory, KeyDirectory } from "../../stores/durable.ts";
import { memoryAuditLog } from "../../stores/memory-audit.ts";
import { memoryReplayStore } from "../../stores/memory-replays.ts";
import { callAdmin } from "../call-admin.ts";
import { withLog } from "../change-log.ts";
import { inTurns, jsonPartsOf } from "../columns.ts";
import { assertKeyDirectory } from "../key-admin.ts";
import { masked } from "../masked.ts";
import { codeOf, codeOfStatus } from "../refusal-codes.ts";
import { hasTag, isTag } from "./edit.ts";
import { fieldError } from "./field-errors.ts";
import { Lane, Unread } from "./lane.ts";
import { Guard, type Login } from "./login.ts";
import {
  type AdminGateway,
  type AdminUser,
  type Asked,
  currencyOf,
  type Desk,
  deskOf,
  type Operation,
  partsOf,
  type Told,
  unitsAndMoney,
  watched,
  type WatchedRequest,
  withIdsMeant,
} from "./operation.ts";
import { OPERATIONS } from "./operations.ts";
import { AdminRefusal, refused, refusedForNow, tooMany } from "./refusal.ts";

/** Options of `adminHandler`. */
export interface AdminHandlerOptions<Context = unknown> {
  /**
   * The host's own login, asked for every request: returns the user, or undefined for a stranger, who gets a 401. A response, such as a
   * redirect to the login, is sent as it is. When the function throws, returns anything else, or takes longer than 10 seconds, the request is
   * refused. A user is an object of its own with the fields of `AdminUser` alone.
   *
   * @param request The request, whose body must not be read. Its `url` has the whole path that the client asked for, under every mount.
   * @param context The host's own context of the request, as the option `context` of the mount makes it.
   */
  authorize(request: Request, context: Context | undefined): Login | Promise<Login>;
  /** Keeps who changed what. Default: `memoryAuditLog()`, which ends with the process. */
  readonly audit?: AuditLog;
  /** The gateway whose health and running calls the admin shows. Default: none. */
  readonly gateway?: AdminGateway;
  /** The recorded calls for reports, such as `stores.calls` of `openStores`. Default: none. */
  readonly calls?: CallReader;
  /**
   * Keeps the answers of changes with an `Idempotency-Key` for a day, without secrets. Admins that share it must have different users, or
   * mount paths that differ in more than case: give other tenants a store each, such as one with another `prefix`. A store over SQL or Redis
   * keeps the latest `maxEntriesPerKey` answers of each user, 1,000 by default. Default: a store in memory, which other processes do not share.
   */
  readonly replayStore?: ReplayStore;
  /** A page for browsers at the root of the mount, such as `adminPage()` of `polygate/admin/page`. Default: none. */
  readonly page?: AdminPage;
  /** Receives each failure whose cause the user is not told. Default: prints to standard error, in one line while the store is away. */
  readonly onFailure?: (error: unknown) => void;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** The admin over HTTP. Every adapter of a gateway mounts it, such as `toExpressHandler`. It owns every path below its mount. */
export interface AdminHandler<Context = unknown> extends Mountable<Context>, CoreRoutes<Context> {}

/** The longest wait for the work of a request, in milliseconds. */
const WORK_MS = 30_000;
/** A report has all of its rows in memory, and its query cannot be stopped. One that does not end makes room for others after this time. */
const REPORTS = { what: "reports", atOnce: 1, waiting: 19, heldMs: 10 * WORK_MS };
/** A request that searches reads thousands of rows, and a database has few connections, which the gateway needs too. */
const READS = { what: "requests", atOnce: 4, waiting: 100, heldMs: WORK_MS };
/** Hints read thousands of names, and compare their letters. A refusal that finds no room has none. */
const HINTS = { what: "hints", atOnce: 1, waiting: 9, heldMs: WORK_MS };
/** A login is asked for again behind a body that took longer, in milliseconds. */
const LOGIN_MS = 1_000;
/** The time between two reports of a store that cannot be used, in milliseconds. */
const QUIET_MS = 60_000;
const MAX_BODY_BYTES = 64 * 1024;
/**
 * A change with an `Idempotency-Key` holds this key, and its answer is kept, for this time in milliseconds. A change that hangs, or whose process
 * has died, may have been made: the key is not free before.
 */
const RETAIN_MS = 24 * 3_600_000;
/** The longest wait for the store of answers to take the end of a change, in milliseconds. */
const TELL_MS = 5_000;
/** The most answers in the default store, which also limits their bytes. */
const MOST_ANSWERS = 100_000;

/** The headers of every answer. No other page may read or frame it, nor keep a hold of its window. */
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
} as const;

const csvHeaders = ({ fileName, note }: NonNullable<Told["csv"]>): Readonly<Record<string, string>> => ({
  "content-type": "text/csv; charset=utf-8; header=present",
  "content-disposition": `attachment; filename="${fileName}"`,
  ...(note !== undefined && { "polygate-note": note }),
});

/**
 * Makes the admin of a store of keys: keys, budgets, usage, health and the log of changes as JSON, with an OpenAPI document at
 * `/openapi.json`. Pages of other origins can neither read nor change anything.
 *
 * @param store A durable store, or the `keys` of a store in memory, which has no budgets.
 * @throws TypeError without `authorize`, and for a wrong option.
 * @example
 * import express from "express";
 * import { adminHandler } from "polygate/admin/http";
 * import { toExpressHandler } from "polygate/express";
 * import { openStores } from "polygate/stores";
 *
 * const stores = await openStores("sqlite:gateway.db");
 * const users = new Map([["session=9f2c", { name: "ann" }]]); // Your login.
 * const authorize = ({ headers }: Request) => users.get(headers.get("cookie") ?? "");
 * export const app = express().use("/admin/api", toExpressHandler(adminHandler(stores.ports.quotas, { authorize })));
 */
export function adminHandler<Context = unknown>(
  store: KeyDirectory & Partial<BudgetDirectory>,
  options: AdminHandlerOptions<Context>,
): AdminHandler<Context> {
  assertKeyDirectory("adminHandler", store);
  assertOptions<AdminHandlerOptions<Context>>("adminHandler", options, {
    authorize: "function",
    audit: { optional: portOf(["begin", "end", "list"], "an AuditLog, such as memoryAuditLog()") },
    gateway: { optional: portOf(["health"], A_GATEWAY) },
    calls: { optional: portOf(["usage", "find", "list"], "the calls of stores over SQL, such as stores.calls") },
    replayStore: { optional: portOf(["claim", "record", "release"], "a ReplayStore, such as memoryReplayStore()") },
    page: { optional: portOf(["file"], "a page, such as adminPage()") },
    onFailure: "function?",
    clock: CLOCK,
  });
  const { gateway, audit = memoryAuditLog(), clock = systemClock, onFailure = printFailure } = options;
  const calls = options.calls && callAdmin(options.calls);
  const admin = new Admin(deskOf(store, { audit, gateway, calls, clock }), {
    clock,
    replays: options.replayStore ?? memoryReplayStore({ clock, maxEntries: MOST_ANSWERS }),
    page: options.page,
    onFailure: (error) => tellHost(onFailure, error),
    authorize: (request, mounted) => options.authorize(request, mounted.context as Context | undefined),
  });
  return { ...admin.at(""), at: (prefix) => admin.at(prefix), isClosing: () => false, endpoints: [] };
}

const isUnmigrated = (error: unknown): error is Error =>
  error instanceof Error && (error as { readonly code?: unknown }).code === UNMIGRATED;

/** True for the error of a store that is away, has run out of time, or has no tables. */
const isUnusable = (error: unknown): error is Error => isUnmigrated(error) || isPassing(error);

/**
 * Prints a failure: one line for a store that cannot be used, whose stack is that of its client, and the stack for all others. Indents the
 * stack, and escapes control characters: the message may repeat what a stranger has sent.
 */
function printFailure(error: unknown): void {
  if (!isUnusable(error)) {
    const text = manyLines(describeError(error)).replaceAll("\n", "\n  ");
    return console.error(`polygate: a request of the admin has failed: ${text}`);
  }
  // Node tries all addresses of a name, and then has a message for each of them.
  const { message } = error instanceof AggregateError ? (error.errors[0] as Error) : error;
  console.error(`polygate: a request of the admin has failed: ${oneLine(message)}`);
}

interface Services {
  readonly clock: Clock;
  readonly replays: ReplayStore;
  readonly page: AdminPage | undefined;
  readonly onFailure: (error: unknown) => void;
  readonly authorize: (request: Request, mounted: Mounted) => Login | Promise<Login>;
}

/** An answer that a repeated request gets again. */
type Kept = Pick<RecordedAnswer, "status" | "headers"> & { readonly body: string };

/** Stands for the answer of a change that may have been made. No other answer that is kept has the status of an error. */
const UNKNOWN_END: Kept = { status: 409, headers: {}, body: "{}" };

/** The facts of a request, on its way through the app. */
interface Context {
  user?: AdminUser;
  /** Asks the host again who the user is. */
  askAgain?: () => Promise<AdminUser | Response>;
  /** The path of the mount as the client sees it, with a slash at its end. */
  base?: string;
}

/** The statuses of refused changes. An unknown id has the same one in the path, in the body and in the query. */
const STATUSES: Readonly<Record<RefusedChange["code"], number>> = {
  not_found: 404,
  conflict: 409,
  changed_meanwhile: 409,
  limit_reached: 400,
};

class Admin {
  readonly #desk: Desk;
  readonly #services: Services;
  readonly #operations: readonly Operation[];
  /** The OpenAPI document of the latest mount that was asked for it. */
  #document: { readonly base: string; readonly answer: Answer } | undefined;
  readonly #guard: Guard;
  readonly #reports: Lane;
  readonly #reads: Lane;
  readonly #hints: Lane;
  readonly #unread: Unread;
  /** The last time when the host heard of a store that is away or has no tables, in milliseconds. */
  #toldUnusableAt = -Infinity;

  constructor(desk: Desk, services: Services) {
    this.#desk = desk;
    this.#services = services;
    const { authorize, clock, page } = services;
    this.#guard = new Guard({ authorize, clock, loginUrl: page?.loginUrl, headers: HEADERS });
    this.#reports = new Lane({ ...REPORTS, clock });
    this.#reads = new Lane({ ...READS, clock });
    this.#hints = new Lane({ ...HINTS, clock });
    this.#unread = new Unread(clock);
    const has = partsOf(desk);
    this.#operations = OPERATIONS.filter(({ needs }) => needs === undefined || has[needs]);
  }

  /** Returns the routes under a prefix. */
  at(prefix: string): CoreRoutes {
    const root = plainPrefix(prefix);
    const app = this.#app(root);
    const owns = (request: Request): boolean => {
      const path = pathIn(request);
      return path !== undefined && `${path}/`.startsWith(`${root}/`);
    };
    const handle = (request: Request, mounted: Mounted = {}): Promise<Response> | undefined =>
      owns(request) ? this.#answer(app, root, request, mounted) : undefined;
    return {
      handle,
      fetch: (input, init) =>
        fetched(
          input,
          init,
          async (request) => handle(request) ?? this.#failed(refused(404, `The admin is at ${root}/.`)),
        ),
      answer: (request, mounted) => handle(request, mounted)?.then(answerOf),
      connect: () => undefined,
      errorResponse: (request, error) => (owns(request) ? this.#failed(error) : undefined),
    };
  }

  #app(root: string): H3 {
    const app = new H3({
      silent: true,
      allowMalformedURL: true,
      onError: (error, { req }) => this.#failed(error, isRead(req)),
    });
    for (const [path, operations] of Map.groupBy(this.#operations, (one) => one.path)) {
      for (const operation of operations)
        app.on(operation.method, `${root}${path}`, (event) => this.#run(operation, event));
      app.all(`${root}${path}`, ({ req }) => {
        const allow = operations.map(({ method }) => method).join(", ");
        throw refused(405, `This route takes ${allow}, not ${req.method}.`, {}, { allow });
      });
    }
    const inLane = (path: string, answer: (base: string, file?: string) => Promise<Response>): void =>
      void app.get(path, ({ context }) => this.#reads.run(() => answer(baseOf(context), context.params?.["file"])));
    inLane(`${root}/openapi.json`, async (base) => {
      const { openApiOf } = await import("./openapi.ts");
      if (this.#document?.base !== base) {
        const document = openApiOf(this.#operations, base.replace(/(?<=.)\/$/, ""));
        this.#document = { base, answer: jsonAnswer(200, document, HEADERS) };
      }
      return toResponse(this.#document.answer);
    });
    const { page } = this.#services;
    if (page) {
      inLane(root || "/", (base) => fileOf(page, "", base));
      inLane(`${root}/:file`, (base, file = "") => fileOf(page, file, base));
    }
    app.all(`${root}/**`, ({ req, context }) => {
      throw refused(404, noRoute(this.#operations, pathOf(req.url).slice(root.length), baseOf(context)));
    });
    return app;
  }

  async #answer(app: H3, root: string, request: Request, mounted: Mounted): Promise<Response> {
    try {
      // A client chooses the host header, which may make no URL with the path. Then functions of the host would read a wrong path.
      // With a part of a path in the header, Deno reads another path than a proxy before it, which may guard paths.
      if (!URL.canParse(request.url) || /[/?#@\\]/.test(request.headers.get("host") ?? ""))
        throw refused(400, "The host header is not a host.");
      assertOwnPage(request, root);
      assertPlain(pathOf(request.url).slice(root.length));
      const ask = (): Promise<AdminUser | Response> => this.#guard.userOf(request, root, mounted);
      const login = await ask();
      if (login instanceof Response) return login;
      const base = `${mounted.path ?? ""}${root}/`;
      const context = { user: login, askAgain: ask, base } satisfies Context;
      return await app.fetch(Object.assign(request, { context }));
    } catch (error) {
      return this.#failed(error, isRead(request));
    }
  }

  async #run(operation: Operation, event: H3Event): Promise<Response> {
    const { req } = event;
    // The cast is safe: no request comes here without a login.
    const context = event.context as Required<Context>;
    const { action } = operation;
    const { clock } = this.#services;
    let { user } = context;
    assertMay(user, action);
    // A route that ignored the header would change a state that its user has not seen.
    if (action !== undefined && !operation.tagOf && req.headers.has("if-match"))
      throw refused(400, "This route takes no If-Match.");
    if (action !== undefined && req.headers.has("if-none-match"))
      throw refused(400, "A change takes no If-None-Match.");
    // The log of changes would leave out what one tag has, and the store would take the state of the other.
    if (req.headers.get("if-match")?.includes(",")) throw refused(400, "If-Match takes one tag.");
    const begunAt = clock.now();
    const text = operation.method === "GET" ? "" : await textOf(req, clock);
    // A clock may be set back.
    if (Math.abs(clock.now() - begunAt) >= LOGIN_MS) {
      // The host may have removed the user while the body came.
      const login = await context.askAgain();
      if (login instanceof Response) return login;
      assertMay((user = login), action);
    }
    const asked: Asked = {
      user,
      id: idOf(operation.path, req.url),
      body: operation.method === "GET" ? undefined : parsed(operation.body ?? NOTHING, text),
      query: operation.query && checked(operation.query, parametersOf(req.url)),
      ifMatch: req.headers.get("if-match") ?? undefined,
      isConfirmed: req.headers.get("confirm") === "true",
      accept: req.headers.get("accept") ?? undefined,
    };
    const request = watched(this.#desk, action === undefined ? req.signal : undefined);
    const work = async (): Promise<Kept> => {
      const lane = operation.asCsv ? this.#reports : this.#reads;
      const told = await (action === undefined
        ? this.#told(operation, asked, request, lane)
        : this.#noted(operation, action, asked, request));
      return {
        status: operation.status ?? 200,
        headers: { ...(told.csv && csvHeaders(told.csv)), ...(told.tag && { etag: told.tag }) },
        body: told.csv?.text ?? told.json ?? JSON.stringify(told.body),
      };
    };
    const key = req.headers.get("idempotency-key");
    const kept = await this.#bounded(
      action === undefined || key === null ? work() : this.#once(key, operation, asked, event, text, request, work),
      request,
      action === undefined,
    );
    request.assertAwaited();
    // A change that is made gets its answer.
    return new Response(action === undefined ? this.#unread.body(kept.body, req) : kept.body, {
      status: kept.status,
      headers: { "content-type": "application/json", ...HEADERS, ...kept.headers },
    });
  }

  /** Ends a wait for a store that hangs. A change that has begun goes on, and keeps its `Idempotency-Key`; any other is not made any more. */
  async #bounded(work: Promise<Kept>, request: WatchedRequest, ofRead: boolean): Promise<Kept> {
    const kept = await within(work, WORK_MS, this.#services.clock);
    if (kept !== LATE) return kept;
    request.isOver = true;
    throw refusedForNow(
      ofRead
        ? "The store has not answered in time. Try again in some seconds."
        : "The store has not answered in time. Look whether the change was made.",
    );
  }

  /**
   * Does the work, and gives the errors of the stores their status. A refusal leaves the lane of the work before it waits for a
   * hint, which others may keep waiting.
   *
   * @param lane That of a read. A change waits for no other work.
   */
  async #told(operation: Operation, asked: Asked, request: WatchedRequest, lane?: Lane): Promise<Told> {
    const { desk } = request;
    const work = async (): Promise<Told | { readonly status: number; readonly error: RangeError }> => {
      let told: Told;
      try {
        request.assertAwaited();
        told = await operation.run(desk, asked as Asked<never, never>);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        const ofCode = error instanceof RefusedChange ? STATUSES[error.code] : 400;
        return { status: (await this.#isMissing(operation, asked)) ? 404 : ofCode, error };
      }
      return lane ? inJson(told) : told;
    };
    const end = await (lane ? lane.run(work) : work());
    if ("error" in end) throw await this.#refusal(end.status, end.error, desk);
    return end;
  }

  async #refusal(status: number, error: RangeError, desk: Desk): Promise<AdminRefusal> {
    const code = codeOf(error);
    if (!(error instanceof RefusedUnits))
      return refused(status, await withIdsMeant(desk, error.message, this.#hints), status === 404 ? {} : { code });
    const currency = await currencyOf(this.#desk);
    const message = limitInWords(error.limit, (units) => unitsAndMoney(units, currency));
    return refused(status, message, { code, limit: error.limit, reason: error.message });
  }

  async #isMissing({ path }: Operation, { id }: Asked): Promise<boolean> {
    const { store } = this.#desk;
    if (path.startsWith("/keys/:id")) return !(await store.report(id));
    if (!path.startsWith("/budgets/:id")) return false;
    const budget = await store.budgetReport?.(id);
    return budget === undefined || budget.removed === true;
  }

  #noted(operation: Operation, action: string, asked: Asked, request: WatchedRequest): Promise<Told> {
    const fields = (asked.body ?? {}) as { readonly id?: string };
    const { ifMatch } = asked;
    return withLog(
      { ...this.#desk, onFailure: this.#services.onFailure },
      {
        user: asked.user.name,
        action,
        target: asked.id || fields.id,
        fields,
        // The cast is safe: the log reads the state that the operation edits.
        ...(isTag(ifMatch) && { isSeen: (state) => hasTag(ifMatch, operation.tagOf?.(state as never) ?? "") }),
      },
      (condition) => this.#told(operation, { ...asked, ...given({ condition }) }, request),
      {
        idOf: ({ made }) => made,
        endOf(error) {
          if (request.mayBeMade) return undefined;
          if (!(error instanceof AdminRefusal)) return { state: "failed" };
          return { state: "refused", reason: error.told.reason ?? error.message };
        },
      },
    );
  }

  /** Makes a change once for all requests with the same `Idempotency-Key`. */
  async #once(
    key: string,
    { method, path }: Operation,
    { user, id }: Asked,
    { req, context }: H3Event,
    text: string,
    request: WatchedRequest,
    work: () => Promise<Kept>,
  ): Promise<Kept> {
    if (!/^[\x21-\x7e]{1,255}$/.test(key))
      throw refused(400, "The header Idempotency-Key must be 1 to 255 visible ASCII characters, without spaces.");
    const { replays } = this.#services;
    // Admins of several tenants may share a store of answers. A user who makes many changes deletes no answers of others.
    // Frameworks may read the path of a mount without its case.
    const whose = ["admin", baseOf(context).toLowerCase(), user.name];
    const holder: ReplayHolder = {
      id: hashOf([...whose, method, path, id, key]),
      keyId: hashOf(whose),
      callId: crypto.randomUUID(),
    };
    const fingerprint = hashOf([text, req.headers.get("if-match")]);
    const release = (): Promise<void> => replays.release(holder);
    const state = await replays.claim({ ...holder, fingerprint, leaseMs: RETAIN_MS }).catch((error: unknown) => {
      if ((Object(error) as { readonly code?: unknown }).code === "busy")
        throw tooMany("changes with an Idempotency-Key");
      // The store may have taken the claim.
      void this.#tellEnd(release);
      throw error;
    });
    if (state.state !== "claimed" && state.fingerprint !== fingerprint)
      throw refused(409, "Another request has used this Idempotency-Key.");
    if (state.state === "running")
      throw refused(
        409,
        "The first request with this Idempotency-Key still runs, or its process has died. Try again in some seconds, or look whether the change was made.",
      );
    if (state.state === "answered") {
      const { status, headers, body } = state.answer;
      if (status === UNKNOWN_END.status)
        throw refused(
          409,
          "The first request with this Idempotency-Key has failed, and may have made the change. Look whether it was made before you send it with a new key.",
          { code: "outcome_unknown" },
        );
      if (body === undefined)
        throw refused(
          409,
          "The first request with this Idempotency-Key has made the change. Its answer was too large to keep.",
          { code: "answer_not_kept" },
        );
      return { status, headers: { ...headers, "idempotency-replayed": "true" }, body };
    }
    const record = ({ status, headers, body }: Kept): Promise<void> => {
      const answer = { requestId: holder.callId, status, headers, body: withoutSecret(body), stream: false };
      return this.#tellEnd(() => replays.record({ ...holder, fingerprint, answer, retainMs: RETAIN_MS }));
    };
    try {
      const kept = await work();
      await record(kept);
      return kept;
    } catch (error) {
      await (request.mayBeMade ? record(UNKNOWN_END) : this.#tellEnd(release));
      throw error;
    }
  }

  /** Tells the store of answers how a change has ended. Until the store takes it, a repeat finds the change running. */
  #tellEnd(tell: () => Promise<void>): Promise<void> {
    const { clock } = this.#services;
    return retryBehind(clock, async (isLast) => {
      try {
        // A store that hangs must not keep the secret of a new key from its user.
        if ((await within(tell(), TELL_MS, clock)) === LATE)
          throw new Error("The store of answers has not taken the end of a change in time.");
        return true;
      } catch (error) {
        if (isLast) this.#services.onFailure(error);
        return false;
      }
    });
  }

  /** Answers with an error. Tells the user the cause of a refusal only. */
  #failed(thrown: unknown, ofRead = false): Response {
    const { status, message, told, headers } = refusalIn(thrown) ?? this.#reported(thrown, ofRead);
    const { code = codeOfStatus(status), limit } = told;
    // People paste secrets for ids.
    const body = { error: { code, message: masked(message), ...(limit && { limit }) } };
    return toResponse(jsonAnswer(status, body, { ...headers, ...HEADERS }));
  }

  /**
   * Tells the host of a failure, and returns the error for the user. Every request fails while a store is away or has no tables: the host hears
   * of one a minute.
   */
  #reported(thrown: unknown, ofRead: boolean): AdminRefusal {
    // The router wraps errors.
    const cause = HTTPError.isError(thrown) && thrown.unhandled ? thrown.cause : thrown;
    const now = this.#services.clock.now();
    const isQuiet = isUnusable(cause);
    // A clock may be set back.
    if (!isQuiet || Math.abs(now - this.#toldUnusableAt) >= QUIET_MS) {
      if (isQuiet) this.#toldUnusableAt = now;
      this.#services.onFailure(cause);
    }
    // By the contract of stores, this message holds no secret. It names the command that makes the tables.
    if (isUnmigrated(cause)) return refused(503, cause.message);
    if (!isQuiet) return refused(500, "The request has failed.");
    return refusedForNow(
      ofRead
        ? "The store is away. Try again in some seconds."
        : "The store is away. Try again in some seconds, and look whether a change was made.",
    );
  }
}

/** Writes an answer to a read, which may be large. The lane of the read bounds how many are in memory at once. */
const inJson = async (told: Told): Promise<Told> =>
  told.body ? { ...told, json: await inTurns(jsonPartsOf(told.body)) } : told;

const isRead = ({ method }: Request): boolean => method === "GET" || method === "HEAD";

/** Returns the refusal behind an error, which the router may have wrapped. The router refuses a mount without a page by itself. */
function refusalIn(thrown: unknown): AdminRefusal | undefined {
  const { cause = thrown } = Object(thrown) as { readonly cause?: unknown };
  if (thrown instanceof AdminRefusal) return thrown;
  if (cause instanceof AdminRefusal) return cause;
  return isNoRoute(thrown) ? refused(404, "There is no such route.") : undefined;
}

const isNoRoute = (thrown: unknown): boolean =>
  HTTPError.isError(thrown) && thrown.status === 404 && thrown.message.startsWith("Cannot find");

function assertMay({ readOnly }: AdminUser, action: string | undefined): void {
  if (action !== undefined && readOnly) throw refused(403, "You may not change anything.");
}

const baseOf = (context: unknown): string => (context as Context).base ?? "/";

async function fileOf(page: AdminPage, name: string, base: string): Promise<Response> {
  const file = await page.file(name, base);
  if (!file) throw refused(404, "There is no such route.");
  return new Response(file.text, { headers: { "content-type": file.type, ...HEADERS, ...PAGE_HEADERS } });
}

/** Returns the sentence for an unknown path below the mount. Suggests a path that differs in one mistyped part. */
function noRoute(operations: readonly Operation[], path: string, base: string): string {
  const asked = path.split("/");
  const near = operations.flatMap((operation) => {
    const known = operation.path.split("/").map((part, at) => (part === ":id" ? (asked[at] ?? "") : part));
    const wrong = known.flatMap((part, at) => (part === asked[at] ? [] : [at]));
    const [at = 0, ...others] = wrong;
    const isNear = known.length === asked.length && others.length === 0 && nearest(asked[at] ?? "", [known[at] ?? ""]);
    return isNear ? [known.join("/")] : [];
  });
  const [meant] = near;
  const at = oneLine(base);
  const hint =
    meant === undefined ? `This admin is at ${at}, with routes such as ${at}keys.` : `Did you mean ${oneLine(meant)}?`;
  return `There is no such route. ${hint}`;
}

/**
 * Throws for what another origin's page asks for with the login of its reader, except a link to the admin's page. Browsers tell the origin of
 * a page; and they ask first whether a page may send JSON, which is answered to no page.
 */
function assertOwnPage({ method, headers, url }: Request, root: string): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  // A WebSocket tells the origin of its page alone, and a page that is loaded ahead its purpose alone.
  const isOfOther =
    (site !== null && site !== "same-origin" && site !== "none") ||
    (origin !== null && URL.parse(origin)?.host !== (headers.get("host") ?? URL.parse(url)?.host));
  if (method === "GET" || method === "HEAD") {
    const isLink = headers.get("sec-fetch-mode") === "navigate" && headers.get("sec-fetch-dest") === "document";
    // A download shows another page whether an id is known: the window stays where it was.
    if ((isOfOther || headers.has("sec-purpose")) && !(isLink && /^\/?$/.test(pathOf(url).slice(root.length))))
      throw refused(403, "A page of another origin may only link to the page of the admin.");
    return;
  }
  if (isOfOther) throw refused(403, "A page of another origin may not change anything.");
  const type = headers.get("content-type") ?? "";
  if (method !== "DELETE" && !/^application\/json\s*(?:;|$)/i.test(type))
    throw refused(415, "The content-type must be application/json.");
}

/** The paths with an id, below the mount. */
const WITH_ID = new RegExp(
  `^(?:${OPERATIONS.flatMap(({ path }) => (path.includes(":id") ? path.replace(":id", "[^/]+") : [])).join("|")})$`,
);

/**
 * Throws for a path that the router would rewrite: one that is percent-encoded elsewhere than in its id, has parts that a URL removes, or ends
 * in a slash. A guard of the host that refuses `/rotate` would not know `/r%6Ftate`.
 */
function assertPlain(path: string): void {
  if ((path.includes("%") && !WITH_ID.test(path)) || /\\|\/(?:\.|%2e){1,2}(?:\/|$)|.\/$/i.test(path))
    throw refused(404, "There is no such route. Write its path as it is, and percent-encode only the id.");
}

/** Returns the id in a path as it was written, because an id may hold an encoded slash. */
function idOf(pattern: string, url: string): string {
  const names = pattern.split("/");
  const at = names.indexOf(":id");
  if (at < 0) return "";
  const written =
    pathOf(url)
      .replace(/\/$/, "")
      .split("/")
      .at(at - names.length) ?? "";
  try {
    return decodeURIComponent(written);
  } catch {
    throw refused(400, "The id in the path is not percent-encoded.");
  }
}

/** Returns the parameters of an address. A repeated parameter has a list of values. */
function parametersOf(url: string): Record<string, string | string[]> {
  // One pass: Deno takes an address of 64 KB, with tens of thousands of parameters.
  const byName = Map.groupBy(queryOf(url), ([name]) => name);
  return Object.fromEntries(
    [...byName].map(([name, entries]) => {
      const values = entries.map(([, value]) => value);
      return [name, values.length > 1 ? values : (values[0] ?? "")];
    }),
  );
}

/** The statuses of bodies that cannot be read. The host alone is told of one that its own middleware has read and not kept. */
const BODY_STATUSES: { readonly [Code in GatewayErrorCode]?: number } = {
  malformed_body: 400,
  client_closed: 400,
  deadline_exceeded: 408,
  body_too_large: 413,
  unsupported_media_type: 415,
};

/** The memory for bodies of the admin has no limit of its own: each body is small, and its user is known. */
const NO_LEASE: BodyLease = { take: () => {}, [Symbol.dispose]: () => {} };

/** Reads the text of a body, within the time that bodies of the gateway have by default. A body parser of the host may have read it before. */
async function textOf(req: Request, clock: Clock): Promise<string> {
  const call = { signal: req.signal, clock, limits: DEFAULT_LIMITS, defer: () => {} };
  try {
    return await readText(req, MAX_BODY_BYTES, { lease: NO_LEASE, call });
  } catch (error) {
    // The signal's reason tells only that the connection has failed. The client cannot read this answer.
    if (req.signal.aborted) throw refused(400, "The client closed the connection.");
    const status = error instanceof GatewayError ? BODY_STATUSES[error.code] : undefined;
    throw status === undefined ? error : refused(status, (error as GatewayError).message);
  }
}

/** The body of a change that takes no fields. */
const NOTHING = v.strictObject({});

function parsed(schema: v.GenericSchema, text: string): unknown {
  let body: unknown;
  try {
    body = text === "" ? {} : parseJson(text);
  } catch {
    throw refused(400, "The body is not JSON.");
  }
  // Valibot would take an empty list for an object without fields.
  if (!isJsonObject(body)) throw refused(400, "The body must be a JSON object.");
  assertNamesAreKept(body);
  return checked(schema, body);
}

/** Throws for a note of a name that valibot drops from a record without a word. */
function assertNamesAreKept(body: unknown): void {
  const { metadata } = Object(body) as { readonly metadata?: unknown };
  const name = ["__proto__", "prototype", "constructor"].find((one) => Object.hasOwn(Object(metadata) as object, one));
  if (name !== undefined) throw refused(400, `metadata: the name ${name} cannot be used.`);
}

function checked(schema: v.GenericSchema, value: unknown): unknown {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  const isUnknown =
    issue.type === "strict_object" && issue.expected === "never" && issue.message.startsWith("Invalid ");
  if (isUnknown && issue.path) {
    const { entries } = schema as unknown as { readonly entries: object };
    const [name, known] = [String(issue.path.at(-1)?.key), Object.keys(entries)];
    throw refused(400, known.length > 0 ? `${unknownName(name, known)}.` : `This route takes no fields, not ${name}.`);
  }
  throw refused(400, fieldError(schema, issue));
}

const hashOf = (parts: readonly unknown[]): string => bytesToHex(sha256(utf8ToBytes(JSON.stringify(parts))));

/** Removes the secret of a new key from an answer, which shows it once. */
function withoutSecret(body: string): string {
  const told = parseJson(body);
  return isJsonObject(told) && "apiKey" in told ? JSON.stringify({ ...told, apiKey: null }) : body;
}

/** Puts the pieces that were read already before the rest. A generator would not run its `finally` if it ends before its first piece. */
const behind = <Piece>(
  read: IteratorResult<Piece>[],
  rest: AsyncIterableIterator<Piece>,
): AsyncIterableIterator<Piece> => ({
  next: async () => read.shift() ?? rest.next(),
  return: async () => rest.return?.() ?? { done: true, value: undefined },
  [Symbol.asyncIterator]() {
    return this;
  },
});

/** Returns an answer as data. The pieces of a large one stay pieces, which are made as they are read. */
async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const cookies = headers.getSetCookie();
  const pieces = response.body?.values();
  const first = await pieces?.next();
  const second = await pieces?.next();
  return {
    status,
    headers: Object.fromEntries(headers),
    ...(cookies.length > 0 && { cookies }),
    body: pieces && first && second?.done === false ? behind([first, second], pieces) : (first?.value ?? null),
  };
}

/** A file of the admin's page. */
export interface AdminPageFile {
  /** The value of `content-type`. */
  readonly type: string;
  readonly text: string;
}

/** The files of a page, such as `adminPage()` of `polygate/admin/page`. */
export interface AdminPage {
  /**
   * The address of the host's login, to which a browser that opens the page or the link of a report without a session is sent. The parameter
   * `next` is added: the path to lead back to. Default: the browser gets a 401.
   */
  readonly loginUrl?: string | undefined;
  /**
   * Returns the file of a name; the page itself for an empty one. Undefined for a name without a file.
   *
   * @param base The path of the mount as the browser sees it, with a slash at its end.
   */
  file(name: string, base: string): Promise<AdminPageFile | undefined>;
}

/** The headers of the page's files, beside those of every answer. The page loads nothing from elsewhere, and no page frames it. */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "referrer-policy": "no-referrer",
};
