/** Attacks by mutation: fields, bytes, headers, methods and addresses of requests on every route, changed by chance. */

import type { Random } from "../trial/random.ts";
import { byRoute, type Fixture, fixtures, formBytes, unknownRoutes } from "./fixtures.ts";
import type { Attack, Run } from "./frame.ts";
import { EMPTY, judgeMistake, keyed, METERED, RICH, type Sent, Stage, answering } from "./stage.ts";

export const mutate: Attack = {
  name: "mutate",
  does: "Sends mutated requests to every route: fields, bytes, headers, methods, addresses",
  counts: { full: 60_000, short: 400 },
  open(run) {
    const stage = new Stage({ backend: answering });
    for (const route of unknownRoutes(stage.gateway.endpoints)) run.find("A route has no request to mutate", route);
    return {
      attempt: async (random) => attempt(run, stage, random),
      close: () => stage.assertAtRest(run),
    };
  },
};

const routes = [...byRoute.values()] as [readonly Fixture[], ...(readonly Fixture[])[]];

async function attempt(run: Run, stage: Stage, random: Random): Promise<void> {
  const fixture = random.pick(random.pick(routes) as [Fixture, ...Fixture[]]);
  const sent = await mutated(fixture, random);
  const about = `${sent.method} ${sent.path} ${JSON.stringify(sent.headers)} ${shown(sent.body)}`;
  const answered = await run.turning(`${fixture.method} ${fixture.path}`, () => stage.ask(sent));
  if (answered && sent.method !== "HEAD") judgeMistake(run, answered, about);
}

const shown = (body: Sent["body"]): string =>
  body === undefined
    ? ""
    : (typeof body === "string" ? body : Buffer.from(body as Uint8Array).toString("latin1")).slice(0, 400);

async function mutated({ method, path, json, form }: Fixture, random: Random): Promise<Sent> {
  const apiKey = random.pick([RICH, RICH, METERED, METERED, EMPTY, "sk-nobody"]);
  let headers: Record<string, string> = keyed(apiKey);
  let body: Sent["body"];
  if (json !== undefined) {
    headers["content-type"] = "application/json";
    let value: unknown = json;
    for (let left = random.int(0, 3); left > 0; left--) value = mutatedValue(value, random);
    body = textOf(value);
  }
  if (form) {
    const { type, bytes } = await formBytes(form);
    headers["content-type"] = type;
    body = bytes;
  }
  if (body !== undefined && random.chance(json === undefined ? 0.7 : 0.3))
    body = mutatedBytes(Buffer.from(body as string), random);
  if (random.chance(0.3)) headers = { ...headers, ...random.pick(HEADERS) };
  if (random.chance(0.1)) delete headers[random.pick(Object.keys(headers) as [string, ...string[]])];
  const isMoved = random.chance(0.15);
  return {
    method: random.chance(0.05) ? random.pick(METHODS) : method,
    path: isMoved ? mutatedPath(path, random) : path,
    headers,
    body,
  };
}

const METHODS: [string, ...string[]] = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post", "PROPFIND", "POST"];

const LONG = "x".repeat(9_000);

const HEADERS: [Record<string, string>, ...Record<string, string>[]] = [
  { "content-type": "text/plain" },
  { "content-type": "application/json; charset=utf-16" },
  { "content-type": "application/vnd.api+json" },
  { "content-type": `multipart/form-data; boundary=${"b".repeat(300)}` },
  { "content-type": "multipart/form-data" },
  { "content-type": 'multipart/form-data; boundary=""' },
  { "content-type": `${"a/".repeat(2_000)}json` },
  { "content-encoding": "gzip" },
  { "content-encoding": "deflate, br" },
  { "content-length": "1" },
  { "content-length": "999999999999999999999" },
  { "content-length": "-1" },
  { "content-length": "1e3" },
  { "transfer-encoding": "chunked" },
  { authorization: "Basic c2stcmljaDo=" },
  { authorization: "Bearer" },
  { authorization: `Bearer ${LONG}` },
  { authorization: "Bearer sk-" },
  { authorization: "Bearer \u00ff\u00fe" },
  { "x-api-key": "" },
  { "x-api-key": "__proto__" },
  { "x-goog-api-key": "constructor" },
  { "idempotency-key": "k" },
  { "idempotency-key": "" },
  { "idempotency-key": LONG },
  { "idempotency-key": "\u00e9".repeat(300) },
  { "compat-version": "tomorrow" },
  { "compat-version": "" },
  { "anthropic-beta": LONG },
  { accept: "text/event-stream" },
  { "accept-encoding": "identity;q=0" },
  { origin: "null" },
  { traceparent: `00-${"f".repeat(32)}-${"f".repeat(16)}-01` },
  { traceparent: LONG },
  { tracestate: LONG },
  { baggage: LONG },
  { "x-http-method-override": "DELETE" },
  { "x-forwarded-host": "evil.example", "x-forwarded-prefix": "//evil.example" },
  { expect: "100-continue" },
  { range: "bytes=0-0,5-4,-1" },
  { "if-none-match": "*" },
];

const PIECES: [string, ...string[]] = [
  "%",
  "%00",
  "%0d%0a",
  "%2f",
  "..%2f..",
  "%2e%2e",
  "//",
  "/./",
  "%c0%af",
  "%F0%9D%84%9E",
  "%ED%A0%80",
  ":",
  "%3A",
  ":generateContent",
  "*",
  "**",
  "(.*)",
  "__proto__",
  "a".repeat(5_000),
  "?key=",
  "?key=sk-rich-0123456789&key=",
  "?alt=sse&alt=json",
  "?$alt=%00",
  "?pageSize=-1",
  "?pageSize=1e99&pageToken=%00",
  "?limit=0&after_id=__proto__&before_id=x",
  "#",
  ";",
  "\\",
];

function mutatedPath(path: string, random: Random): string {
  const at = random.int(1, path.length);
  return path.slice(0, at) + random.pick(PIECES) + (random.chance(0.7) ? path.slice(at) : "");
}

/** Marks a string that stands for raw JSON text which no value serializes to, such as a number of many digits. */
const RAW = "\u0001raw:";
const RAW_IN_JSON = /"\\u0001raw:([^"]*)"/g;

const textOf = (value: unknown): string => (JSON.stringify(value) ?? "").replaceAll(RAW_IN_JSON, "$1");

const nested = (depth: number): unknown => {
  let value: unknown = "deep";
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
};

/** Values that often break programs. */
const NAUGHTY: [() => unknown, ...(() => unknown)[]] = [
  () => null,
  () => true,
  () => false,
  () => 0,
  () => -1,
  () => 1.5,
  () => 2 ** 31,
  () => 2 ** 53,
  () => -(2 ** 53),
  () => 1e308,
  () => 5e-324,
  () => "",
  () => " ",
  () => "\u0000",
  () => "\ud800",
  () => "\u2028\u2029",
  () => "__proto__",
  () => "constructor",
  () => "null",
  () => "data:;base64,",
  () => "data:image/png;base64,====",
  () => "javascript:alert(1)",
  () => "file:///etc/passwd",
  () => "http://[::1",
  () => "{",
  () => "[".repeat(6_000),
  () => '{"a":'.repeat(2_000),
  () => "9".repeat(400),
  () => "x".repeat(50_000),
  () => "𝄞".repeat(1_000),
  () => "a\u0300".repeat(1_000),
  () => [],
  () => ({}),
  () => [[]],
  () => [null],
  () => Array.from({ length: 300 }, () => null),
  () => Array.from({ length: 300 }, () => ({})),
  () => nested(50),
  () => nested(190),
  () => nested(400),
  () => `${RAW}1${"0".repeat(400)}`,
  () => `${RAW}-0`,
  () => `${RAW}1e-400`,
  () => `${RAW}NaN`,
  () => `${RAW}{\\u0022a\\u0022:1}`,
  () => ({ type: "text" }),
  () => ({ type: "__proto__" }),
  // oxlint-disable-next-line unicorn/no-thenable -- a field of a body may have any name
  () => ({ toString: 1, valueOf: 2, then: 3, toJSON: 4, length: -1 }),
];

const KEYS: [string, ...string[]] = [
  "__proto__",
  "constructor",
  "prototype",
  "then",
  "toJSON",
  "length",
  "type",
  "",
  "0",
  "\u0000",
  "a.b",
  "$ref",
];

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Changes one position of a value. The search goes down by chance, so that deep positions change as often as shallow ones. */
function mutatedValue(value: unknown, random: Random): unknown {
  const keys = Array.isArray(value) ? [...value.keys()] : isObject(value) ? Object.keys(value) : [];
  const [first, ...others] = keys as (string | number)[];
  if (first === undefined || random.chance(0.25)) return changed(value, random);
  const key = random.pick<string | number>([first, ...others]);
  if (Array.isArray(value)) {
    const list: unknown[] = value;
    return list.map((item, index) => (index === key ? mutatedValue(item, random) : item));
  }
  return withField(value as object, String(key), mutatedValue((value as Record<string, unknown>)[key], random));
}

/** Adds a field of any name to an object, even `__proto__`, which is an ordinary key in JSON. */
const withField = (value: object, key: string, field: unknown): object =>
  Object.defineProperty({ ...value }, key, { value: field, enumerable: true, configurable: true, writable: true });

function changed(value: unknown, random: Random): unknown {
  if (random.chance(0.35)) return random.pick(NAUGHTY)();
  // Insert a part of another request, of this or another format.
  if (random.chance(0.15)) return partOf(fixtures[random.int(0, fixtures.length - 1)]?.json, random);
  if (Array.isArray(value)) {
    const list: unknown[] = value;
    const at = random.int(0, list.length);
    if (random.chance(0.3)) return list.toSpliced(at, 1);
    if (random.chance(0.5)) return list.toSpliced(at, 0, random.pick(NAUGHTY)());
    return Array.from({ length: random.int(2, 200) }, () => list).flat();
  }
  if (isObject(value)) {
    const keys = Object.keys(value);
    const key = random.pick([...KEYS, ...keys]);
    if (random.chance(0.4)) return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
    return withField(value, key, random.pick(NAUGHTY)());
  }
  if (typeof value === "string")
    return random.chance(0.5) ? value.slice(0, random.int(0, value.length)) : value.repeat(random.int(2, 50));
  if (typeof value === "number") return random.pick([-value, value + 0.5, value * 1e9, String(value), value + 2 ** 53]);
  return random.pick(NAUGHTY)();
}

function partOf(value: unknown, random: Random): unknown {
  const parts = Array.isArray(value) ? (value as unknown[]) : isObject(value) ? Object.values(value) : [];
  const [first, ...others] = parts;
  return first === undefined || random.chance(0.3) ? value : partOf(random.pick([first, ...others]), random);
}

function mutatedBytes(bytes: Buffer, random: Random): Uint8Array<ArrayBuffer> {
  const at = random.int(0, bytes.length);
  const insert = (text: string | Buffer): Uint8Array<ArrayBuffer> =>
    new Uint8Array(Buffer.concat([bytes.subarray(0, at), Buffer.from(text as string), bytes.subarray(at)]));
  switch (random.int(0, 8)) {
    case 0:
      return new Uint8Array(bytes.subarray(0, at));
    case 1:
      return insert("\u0000");
    case 2:
      return insert(Buffer.from([0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80]));
    case 3:
      return insert(bytes.subarray(at, random.int(at, bytes.length)));
    case 4:
      return insert(random.pick(['"', "{", "}", "[", "]", ",", ":", "\\", "'", "//", "\r\n", "--", " ".repeat(5_000)]));
    case 5:
      return new Uint8Array(Buffer.concat([Buffer.from("\ufeff"), bytes]));
    case 6:
      return new Uint8Array(Buffer.from(bytes.toString("utf16le")));
    default: {
      const flipped = new Uint8Array(bytes);
      for (let flips = random.int(1, 8); flips > 0; flips--) {
        const place = random.int(0, Math.max(0, flipped.length - 1));
        if (flipped.length > 0) flipped[place] = (flipped[place] ?? 0) ^ (1 << random.int(0, 7));
      }
      return flipped;
    }
  }
}
