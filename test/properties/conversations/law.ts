/** The law of every pair of formats: what comes back, and what was told to be lost, is everything that was said. */

import type { ChatRequest, JsonObject } from "../../../src/index.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import { type Fact, factsOf } from "./facts.ts";
import type { Format } from "./formats.ts";

/** A conversation as the gateway has it from its caller. */
export interface Asked {
  readonly request: ChatRequest;
  /** Its body, as the caller has sent it. */
  readonly text: string;
  readonly facts: readonly Fact[];
}

/** What became of one conversation. */
export interface Crossing {
  /** How many of its facts did not arrive, each of which was told. */
  readonly lost: number;
  /** Whether the upstream's format cannot say it, which its caller is told. */
  readonly refused: boolean;
}

const parsed = (text: string): JsonObject => JSON.parse(text) as JsonObject;

export function asked(from: Format, said: ChatRequest): Asked {
  const text = JSON.stringify({ ...from.write(said), ...said.native?.body });
  const request = from.read(parsed(text), said);
  for (const field of Object.keys(said.native?.body ?? {}))
    if (!request.native?.unsupported?.().includes(field)) throw new Error(`Not told of: ${field}`);
  return { request, text, facts: [...factsOf(request)] };
}

/** Throws an error that names what was lost without a word, moved, or told of though it is not lost. */
export function crossed(to: Format, { request, text, facts }: Asked): Crossing {
  const { body, conversions } = to.codec.encodeRequest(request);
  const refusals = conversions.filter(({ conversion }) => conversion === "rejected");
  if (refusals.length > 0) {
    for (const { field } of refusals) assertRefused(field, facts, conversions);
    return { lost: 0, refused: true };
  }
  const sent = JSON.stringify(body);
  const isClean = !isUnclean(text, facts, to.name) && !(to.name === "responses" && hasBareReasoning(request));
  if (request.native?.format === to.codec.format && isClean) {
    // The gateway has decided nothing here, so there is nothing of its own in the body but Google's word for a missing signature.
    const same = to.name === "responses" ? withoutIds : withoutPlaceholders;
    if (same(sent) !== same(text) || conversions.length > 0)
      throw new Error("A request of the upstream's own format has changed.");
    return { lost: 0, refused: false };
  }
  const arrived = [...factsOf(to.read(parsed(sent), request))];
  const lost = missing(facts, arrived, conversions);
  assertTold(lost, conversions, sent);
  assertTrue(conversions, lost);
  assertSealed(lost, to.name, sent);
  if (!conversions.some(({ field }) => MOVES.has(field))) assertOrder(facts, arrived);
  return { lost: lost.length, refused: false };
}

/** A seal that names its maker, or an empty one: no upstream may get it. */
const UNCLEAN = /"cG9seWdhdGU6|"(?:signature|thoughtSignature|thought_signature|data|encrypted_content)":""/;

/** Tells whether a body has a seal that its own upstream may not get, and which is taken out. */
const isUnclean = (body: string, facts: readonly Fact[], format: string): boolean =>
  UNCLEAN.test(body) || facts.some(({ seal }) => seal?.maker !== undefined && seal.maker !== format);

/** Tells whether a request has reasoning that nobody takes back. Upstreams of Responses refuse it. */
const hasBareReasoning = ({ messages }: ChatRequest): boolean =>
  messages.some(({ parts }) =>
    parts.some((part) => part.type === "reasoning" && part.signature === undefined && part.maker === undefined),
  );

const PLACEHOLDER = "skip_thought_signature_validator";

/** The body without the text that Google documents for a call whose signature is missing. */
const withoutPlaceholders = (body: string): string =>
  body.includes(PLACEHOLDER)
    ? JSON.stringify(
        JSON.parse(body, (key, value: unknown) =>
          value === PLACEHOLDER || (key === "extra_content" && JSON.stringify(value) === '{"google":{}}')
            ? undefined
            : value,
        ),
      )
    : body;

/** The body without the ids that the gateway or an upstream gave to items. No upstream gets them back. */
function withoutIds(body: string): string {
  const request = parsed(body);
  const input = (request["input"] as JsonObject[]).map(({ id, ...item }) =>
    id !== undefined && item["type"] === "web_search_call" ? { id, ...item } : item,
  );
  return JSON.stringify({ ...request, input });
}

/** The maker of a seal gets it back, and nobody else gets it. */
function assertSealed(lost: readonly Fact[], format: string, body: string): void {
  for (const { key, seal } of lost) {
    if (!seal) continue;
    if (seal.maker === format) throw new Error(`Not given back to its maker: ${key}`);
    if (seal.value.length > 8 && body.includes(JSON.stringify(seal.value)))
      throw new Error(`Given to another than its maker: ${key}`);
  }
  const [flaw] = UNCLEAN.exec(body) ?? [];
  if (flaw !== undefined) throw new Error(`Sent to an upstream: ${flaw}`);
}

const tellsOf = ({ fields }: Fact, field: string): boolean => (fields as readonly string[]).includes(field);

/** What is told to be refused was asked for; and where nothing is left to say, each part's loss is told. */
function assertRefused(field: string, said: readonly Fact[], conversions: readonly Conversion[]): void {
  if (field !== "messages.none") {
    if (!said.some((fact) => tellsOf(fact, field))) throw new Error(`Told to be refused, and not asked for: ${field}`);
    return;
  }
  const parts = said.filter(({ key, ordered }) => ordered && !key.startsWith("instruction "));
  for (const fact of parts) {
    const told = conversions.filter((conversion) => tellsOf(fact, conversion.field));
    // One without words may be told as the parts that it does not have.
    if (!told.some(({ conversion }) => conversion === "dropped" || fact.words === undefined))
      throw new Error(`Told to be nothing, and something: ${fact.key}`);
  }
}

/** What was said and has not arrived. As often as it was said, it must arrive. */
export function missing(said: readonly Fact[], arrived: readonly Fact[], conversions: readonly Conversion[]): Fact[] {
  const counts = new Map<string, number>();
  for (const { key } of arrived) counts.set(key, (counts.get(key) ?? 0) + 1);
  // Pieces of reasoning that follow one another may be joined.
  const isWhole = !conversions.some(({ field }) => field === "messages.reasoning.unsealed");
  const reasoned = arrived.flatMap(({ key }) => (isWhole && key.startsWith("reasoned ") ? key.slice(9) : [])).join("");
  return said.filter(({ key }) => {
    const count = counts.get(key) ?? 0;
    counts.set(key, count - 1);
    return count <= 0 && !(key.startsWith("reasoned ") && reasoned.includes(key.slice(9)));
  });
}

function assertTold(lost: readonly Fact[], conversions: readonly Conversion[], body: string): void {
  for (const fact of lost) {
    const { key, words } = fact;
    const told = conversions.filter(({ field }) => tellsOf(fact, field));
    if (told.length === 0) throw new Error(`Lost without a word: ${key}`);
    const isThere = told.every(({ conversion }) => conversion === "approximated");
    if (isThere && words !== undefined && !body.includes(JSON.stringify(words).slice(1, -1)))
      throw new Error(`Told to be said otherwise, and not said: ${key}`);
  }
}

/** What is told to be dropped is. */
function assertTrue(conversions: readonly Conversion[], lost: readonly Fact[]): void {
  for (const { field, conversion } of conversions)
    if (conversion === "dropped" && !lost.some((fact) => tellsOf(fact, field)))
      throw new Error(`Told to be dropped, and there: ${field}`);
}

/** The conversions that tell of another order. */
const MOVES: ReadonlySet<string> = new Set([
  "messages.tool-result.order",
  "messages.tool-result.media",
  "messages.tool-call.order",
]);

const orderOf = (facts: readonly Fact[]): string[] => facts.filter(({ ordered }) => ordered).map(({ key }) => key);

function assertOrder(said: readonly Fact[], arrived: readonly Fact[]): void {
  const [before, after] = [orderOf(said), orderOf(arrived)];
  const [here, there] = [new Set(before), new Set(after)];
  const [x, y] = [before.filter((key) => there.has(key)), after.filter((key) => here.has(key))];
  for (const [index, key] of x.entries())
    if (y[index] !== key && x.length === y.length) throw new Error(`Moved: ${key}`);
}
