/** The operations on recorded calls: reports, and why a call has ended so. */

import * as v from "valibot";
import { given } from "../../model/json.ts";
import { nextIteration } from "../../ports/clock.ts";
import {
  CALL_OUTCOMES,
  columnsMeant,
  daysMeant,
  MOST_ROWS,
  type RecordedCall,
  USAGE_COLUMNS,
  type UsageQuery,
  type UsageSums,
} from "../../stores/calls.ts";
import { READS_A_TURN } from "../answers.ts";
import {
  type CallAdmin,
  type CallNow,
  callNow,
  type CallReason,
  inCurrency,
  nextSteps,
  noteOfMixed,
  ofNoCharge,
  reasonsOf,
  usageCsvParts,
} from "../call-admin.ts";
import { inTurns } from "../columns.ts";
import { codesMeant } from "../error-codes.ts";
import { requestIdIn, WHERE_IDS_ARE } from "../request-id.ts";
import {
  assertKnown,
  COUNT,
  type Desk,
  FILE,
  hintOfCurrency,
  ofQuery,
  type Operation,
  operation,
  PAGE,
  paged,
  pageOf,
  sizeOfQuery,
  TEXT,
  TIME,
  TIME_OF_QUERY,
  UNITS,
  wantsCsv,
} from "./operation.ts";
import { refused } from "./refusal.ts";

const SUMS = {
  calls: COUNT,
  refused: COUNT,
  failed: COUNT,
  inputTokens: COUNT,
  outputTokens: COUNT,
  cacheReadTokens: COUNT,
  cacheWriteTokens: COUNT,
  reasoningTokens: COUNT,
  images: COUNT,
  units: UNITS,
  money: v.exactOptional(TEXT),
  estimated: UNITS,
} satisfies Record<keyof UsageSums, unknown>;

/** Reads a list of words: `key,day`, or several parameters. */
const WORDS = v.pipe(
  v.union([v.string(), v.array(v.string())]),
  v.description("Words with commas between them, or several."),
  v.transform((written) => [written].flat().flatMap((words) => words.split(","))),
);

/** The filters of reports and of lists. */
const SCOPE = {
  key: v.exactOptional(TEXT),
  budget: v.exactOptional(TEXT),
  ownBudget: v.exactOptional(TEXT),
  group: v.exactOptional(TEXT),
  model: v.exactOptional(TEXT),
  upstream: v.exactOptional(TEXT),
};

/** The columns of a report. Errors name the columns for other words, such as `team`. */
const BY = v.pipe(WORDS, v.array({ ...v.picklist(USAGE_COLUMNS), meant: columnsMeant }));

const DAY = v.pipe(TEXT, v.description("A day, such as `2026-11-01`."));

const USAGE_QUERY = v.strictObject({
  by: v.exactOptional(BY),
  month: v.exactOptional(v.pipe(TEXT, v.description("Such as `2026-11`, or `this` or `last`."))),
  since: v.exactOptional(DAY),
  until: v.exactOptional(DAY),
  ...SCOPE,
  charged: v.exactOptional(
    v.pipe(
      v.picklist(["true", "false"]),
      v.transform((written) => written === "true"),
    ),
  ),
  limit: v.exactOptional(sizeOfQuery(MOST_ROWS)),
  offset: v.exactOptional(ofQuery("The rows before those of the answer.")),
  ...FILE,
});

/** Returns the days that a query asks for. */
function daysIn(
  { month, since, until }: v.InferOutput<typeof USAGE_QUERY>,
  now: number,
): Pick<UsageQuery, "since" | "until"> {
  if (month === undefined) return given({ since, until });
  if (since !== undefined || until !== undefined) throw refused(400, "Choose month, or since and until.");
  return daysMeant("month", month, now);
}

const DURATION = v.pipe(v.number(), v.minValue(0), v.description("Milliseconds."));

const CALL = v.looseObject({
  requestId: TEXT,
  reasons: v.array(TEXT),
  next: v.array(
    v.object({
      sentence: TEXT,
      verb: v.exactOptional(v.picklist(["budgets top-up", "keys grant", "keys resume", "keys update"])),
      budget: v.exactOptional(TEXT),
      key: v.exactOptional(TEXT),
      units: v.exactOptional(UNITS),
    }),
  ),
  at: TIME,
  day: TEXT,
  keyId: v.exactOptional(TEXT),
  keyName: v.exactOptional(TEXT),
  budgets: v.array(TEXT),
  group: v.exactOptional(TEXT),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  format: TEXT,
  route: TEXT,
  modelAsked: v.exactOptional(TEXT),
  modelAnswered: v.exactOptional(TEXT),
  stream: v.boolean(),
  upstream: v.exactOptional(TEXT),
  attempts: v.array(v.looseObject({ upstream: TEXT, model: TEXT })),
  outcome: v.picklist(CALL_OUTCOMES),
  status: COUNT,
  errorCode: v.exactOptional(TEXT),
  errorField: v.exactOptional(TEXT),
  errorMessage: v.exactOptional(TEXT),
  affordedOutputTokens: v.exactOptional(COUNT),
  refusedBy: v.exactOptional(v.looseObject({ kind: TEXT })),
  currency: v.exactOptional(TEXT),
  firstEventMs: v.exactOptional(DURATION),
  endMs: DURATION,
  units: UNITS,
  money: v.exactOptional(TEXT),
});

export const CALL_OPERATIONS: readonly Operation[] = [
  operation({
    operationId: "getUsage",
    method: "GET",
    path: "/usage",
    about: "Returns sums of recorded calls: as JSON a page of rows, and the sums of all rows; or as CSV.",
    needs: "calls",
    asCsv: true,
    query: USAGE_QUERY,
    answer: v.object({
      by: v.array(v.picklist(USAGE_COLUMNS)),
      rows: v.array(v.looseObject(SUMS)),
      total: v.object(SUMS),
      since: v.exactOptional(TEXT),
      until: v.exactOptional(TEXT),
      timeZone: v.exactOptional(TEXT),
      asOf: v.exactOptional(TIME),
      recorded: v.exactOptional(v.object({ since: TEXT, until: TEXT })),
      currency: v.exactOptional(TEXT),
      otherCurrencies: v.exactOptional(v.array(TEXT)),
      next: v.nullable(COUNT),
    }),
    async run(desk, { query, accept }) {
      const { format: _format, currency, spreadsheet, month: _, ...rest } = query;
      const isCsv = wantsCsv(query, accept);
      const asked = { ...rest, ...daysIn(query, desk.clock.now()) };
      const { limit = isCsv ? MOST_ROWS : 1_000, offset = 0 } = asked;
      const recorded = await recordedIn(desk).usage({ ...asked, limit });
      const mistake = ofNoCharge(recorded, currency);
      if (mistake !== undefined) throw refused(400, `${mistake} ${hintOfCurrency(recorded.currency)}`);
      const report = inCurrency(recorded, currency);
      if (report.total.calls === 0) await assertKnown(desk, query);
      const isLast = report.rows.length < limit || asked.by === undefined;
      if (!isCsv) return { body: { ...report, next: isLast ? null : offset + limit } };
      if (!isLast && asked.limit === undefined)
        throw refused(400, `The report has ${MOST_ROWS} rows or more. Choose fewer days, or a limit and an offset.`);
      const { since, until } = report;
      const days = until === undefined ? "" : `-${since ?? "until"}-${until}`;
      const text = await inTurns(usageCsvParts(report, given({ spreadsheet })));
      return { csv: { text, fileName: `usage${days}.csv`, ...given({ note: noteOfMixed(report) }) } };
    },
  }),
  operation({
    operationId: "listCalls",
    method: "GET",
    path: "/calls",
    about: "Lists recorded calls, the latest first, each with the reasons of its end, and with what helps next.",
    needs: "calls",
    query: v.strictObject({
      ...PAGE,
      ...SCOPE,
      outcome: v.exactOptional(v.pipe(WORDS, v.array(v.picklist(CALL_OUTCOMES)))),
      errorCode: v.exactOptional(TEXT),
      sinceDay: v.exactOptional(DAY),
      untilDay: v.exactOptional(DAY),
      since: v.exactOptional(TIME_OF_QUERY),
      until: v.exactOptional(TIME_OF_QUERY),
    }),
    answer: v.object({ ...pageOf(CALL).entries, errorCodes: v.exactOptional(v.array(TEXT)) }),
    async run(desk, { query }) {
      const { errorCode: word, ...filter } = query;
      const errorCodes = word === undefined ? undefined : await codesMeant("errorCode", word);
      const asked = given({ ...filter, errorCode: errorCodes });
      const read = (after: string | undefined, limit: number): Promise<readonly RecordedCall[]> =>
        recordedIn(desk).list({ ...asked, ...given({ after, limit }) });
      const { data: listed, next } = await paged(read, ({ requestId }) => requestId, query);
      if (listed.length === 0) await assertKnown(desk, filter);
      // Many calls of a page are refused by the same limits.
      const known = new Map<string, CallNow>();
      const data: ExplainedCall[] = [];
      for (const call of listed) {
        const { keyId, budgets, refusedBy, errorCode } = call;
        const by = JSON.stringify([keyId, budgets, refusedBy?.budget, refusedBy?.kind, errorCode]);
        const now = known.get(by) ?? (await callNow(call, desk.store));
        known.set(by, now);
        if (known.size % READS_A_TURN === 0) await nextIteration();
        data.push(callTold(call, now));
      }
      return { body: { data, next, ...given({ errorCodes }) } };
    },
  }),
  operation({
    operationId: "getCall",
    method: "GET",
    path: "/calls/:id",
    about: "Returns a recorded call by its request id, with the reasons of its end, and with what helps next.",
    needs: "calls",
    answer: CALL,
    async run(desk, { id }) {
      const own = requestIdIn(id);
      const call = (await recordedIn(desk).find(id)) ?? (own && (await recordedIn(desk).find(own)));
      const hint = /\breq_/.test(id) ? "" : ` ${WHERE_IDS_ARE}`;
      if (!call) throw refused(404, `No call of the request id ${id} is recorded.${hint}`);
      return { body: callTold(call, await callNow(call, desk.store)) };
    },
  }),
];

/** The calls of the host, in operations that need them. */
function recordedIn({ calls }: Desk): CallAdmin {
  if (!calls) throw new Error("The admin has no calls.");
  return calls;
}

/** A call with sentences that say why it has ended so, and with what helps its caller. */
export interface ExplainedCall extends RecordedCall, Pick<CallReason, "reasons" | "next"> {}

const callTold = (call: RecordedCall, now: CallNow): ExplainedCall => ({
  ...call,
  reasons: reasonsOf(call),
  next: nextSteps(call, undefined, now),
});
