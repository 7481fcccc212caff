/** All operations of the admin's HTTP interface, in the order of its OpenAPI document. */

import * as v from "valibot";
import { given } from "../../model/json.ts";
import type { AuditRecord } from "../../ports/audit-log.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { LiveCall } from "../../ports/observer.ts";
import { MOST_ROWS } from "../../stores/calls.ts";
import { failingReason, failingRemedy } from "../call-admin.ts";
import { changesCsvParts } from "../change-list.ts";
import { ACTIONS } from "../change-words.ts";
import { dayIn, inTurns } from "../columns.ts";
import { changePagesOf, roomFor, ROWS_AT_ONCE } from "../pages.ts";
import { BUDGET_OPERATIONS } from "./budget-operations.ts";
import { CALL_OPERATIONS } from "./call-operations.ts";
import { KEY_OPERATIONS } from "./key-operations.ts";
import {
  assertSameCurrency,
  COUNT,
  currencyOf,
  FILE,
  ID,
  idIn,
  LIMIT,
  type Operation,
  operation,
  paged,
  pageOf,
  partsOf,
  SIZE,
  TEXT,
  TIME,
  TIME_OF_QUERY,
  wantsCsv,
} from "./operation.ts";
import { refused } from "./refusal.ts";

const LIVE = v.looseObject({
  requestId: TEXT,
  key: v.exactOptional(v.looseObject({ id: TEXT, name: TEXT })),
  format: TEXT,
  method: TEXT,
  route: TEXT,
  modelAsked: v.exactOptional(TEXT),
  stream: v.boolean(),
  webSocket: v.boolean(),
  upstream: v.exactOptional(TEXT),
  usage: v.exactOptional(v.looseObject({ inputTokens: COUNT, outputTokens: COUNT })),
  images: v.exactOptional(v.looseObject({ count: COUNT })),
  beganAt: TIME,
});

/** The most bytes of changes, as JSON, for a file: all of them are in memory at once. */
const MOST_FILE_BYTES = 64 * 1024 * 1024;
/** After so many calls that are stopped, other work gets a turn. */
const STOPPED_A_TURN = 20;

export const OPERATIONS: readonly Operation[] = [
  operation({
    operationId: "getMe",
    method: "GET",
    path: "/me",
    about:
      "Returns the user, the parts of the admin that this host has, and the currency of the latest recorded call, or else of the prices, or else of the amounts that were given on the command line.",
    answer: v.object({
      name: TEXT,
      readOnly: v.boolean(),
      budgets: v.boolean(),
      health: v.boolean(),
      live: v.boolean(),
      calls: v.boolean(),
      currency: v.exactOptional(TEXT),
    }),
    async run(desk, { user: { name, readOnly = false } }) {
      return { body: { name, readOnly, ...partsOf(desk), ...given({ currency: await currencyOf(desk) }) } };
    },
  }),
  ...KEY_OPERATIONS,
  ...BUDGET_OPERATIONS,
  ...CALL_OPERATIONS,
  operation({
    operationId: "listLiveCalls",
    method: "GET",
    path: "/live",
    about:
      "Lists the calls that run in this process, or those of a key, the oldest first, with their number and the time of the answer.",
    needs: "live",
    query: v.strictObject({ limit: LIMIT, key: v.exactOptional(TEXT) }),
    answer: v.object({ at: TIME, total: COUNT, data: v.array(LIVE) }),
    async run({ gateway, clock }, { query }) {
      const { limit, key: id } = query;
      const data: LiveCall[] = [];
      const add = roomFor(data, limit);
      const ofKey = id === undefined ? undefined : gateway?.liveCalls?.().filter(({ key }) => key?.id === id);
      (ofKey ?? gateway?.liveCalls?.({ limit }))?.every(add);
      return { body: { at: clock.now(), total: ofKey?.length ?? gateway?.liveCallCount?.(), data } };
    },
  }),
  operation({
    operationId: "stopCall",
    method: "POST",
    path: "/live/:id/stop",
    about: "Stops a call that runs in this process. It is charged for what it has used.",
    action: "live.stop",
    needs: "live",
    answer: v.object({ requestId: TEXT, stopped: v.boolean() }),
    async run({ gateway }, { id }) {
      if (!gateway?.stopCall?.(id))
        throw refused(404, `No call of the request id ${id} runs in this process, or it has just ended.`);
      return { body: { requestId: id, stopped: true } };
    },
  }),
  operation({
    operationId: "stopCallsOfKey",
    method: "POST",
    path: "/keys/:id/stop-calls",
    about: "Stops all calls of a key that run in this process. They are charged for what they have used.",
    action: "live.stop-key",
    needs: "live",
    answer: v.object({ key: TEXT, stopped: COUNT }),
    async run({ gateway }, { id }) {
      const calls = gateway?.liveCalls?.().filter(({ key }) => key?.id === id) ?? [];
      let stopped = 0;
      for (const [at, { requestId }] of calls.entries()) {
        if (gateway?.stopCall?.(requestId)) stopped++;
        // The gateway looks for each call among all that run, and those that were stopped leave meanwhile.
        if (at % STOPPED_A_TURN === 0) await nextIteration();
      }
      if (stopped === 0) throw refused(404, `No call of the key ${id} runs in this process.`);
      return { body: { key: id, stopped } };
    },
  }),
  operation({
    operationId: "getHealth",
    method: "GET",
    path: "/health",
    about:
      "Returns the health of the gateway in this process, with the state of its stores and upstreams. `failing` has also the `reason` of its error and, as `remedy`, what helps, in words.",
    needs: "health",
    answer: v.looseObject({ ready: v.boolean() }),
    async run({ gateway }) {
      const health = await gateway?.health();
      const upstreams = health?.upstreams.map((upstream) => {
        const { failing } = upstream;
        if (!failing) return upstream;
        const told = given({ reason: failingReason(failing), remedy: failingRemedy(failing) });
        return { ...upstream, failing: { ...failing, ...told } };
      });
      return { body: { ...health, upstreams } };
    },
  }),
  operation({
    operationId: "listChanges",
    method: "GET",
    path: "/audit",
    about: "Lists the changes, the newest first: a page as JSON, or all as CSV. `user` and `target` match as a whole.",
    asCsv: true,
    query: v.strictObject({
      before: v.exactOptional(ID),
      limit: v.exactOptional(SIZE),
      user: v.exactOptional(ID),
      action: v.exactOptional(v.picklist(ACTIONS)),
      target: v.exactOptional(ID),
      since: v.exactOptional(TIME_OF_QUERY),
      until: v.exactOptional(TIME_OF_QUERY),
      ...FILE,
    }),
    answer: pageOf(v.looseObject({ id: TEXT, at: TIME, user: TEXT, action: TEXT })),
    async run(desk, { query, accept }) {
      const { format: _, currency, spreadsheet, ...page } = query;
      await assertSameCurrency(desk, currency);
      if (!wantsCsv(query, accept)) {
        const read = (before: string | undefined, limit: number): Promise<readonly AuditRecord[]> =>
          desk.audit.list({ ...page, ...given({ before }), limit });
        return { body: await paged(read, idIn, { ...page, limit: page.limit ?? 100 }) };
      }
      const changes: AuditRecord[] = [];
      // A file has every change, unless its client has named a limit.
      const { limit = MOST_ROWS + 1 } = page;
      const add = roomFor(changes, limit, MOST_FILE_BYTES);
      let isFull = false;
      for await (const some of changePagesOf(desk.audit, { ...page, limit: Math.min(limit, ROWS_AT_ONCE) }))
        if ((isFull = !some.every(add))) break;
      if (isFull && changes.length !== page.limit)
        throw refused(
          400,
          `The log has more than ${MOST_ROWS} such changes, or more than 64 MiB. Choose fewer days, or another filter.`,
        );
      const text = await inTurns(changesCsvParts(changes, currency, spreadsheet));
      return { csv: { text, fileName: `changes-${dayIn("UTC", desk.clock.now())}.csv` } };
    },
  }),
];
