/** A body that repeats an earlier one is parsed as if it were the first: the same values, counts, refusals and rules. */

import fc from "fast-check";
import * as v from "valibot";
import { beforeEach, describe, expect, it } from "vitest";
import { KnownBodies } from "../../src/http/known-bodies.ts";
import { array, assertValid, object, openVariant, unknownIn } from "../../src/http/validation.ts";
import {
  DEFAULT_JSON_LIMITS,
  JsonBudget,
  type JsonLimits,
  type JsonObject,
  parseJson,
  VALUE_BYTES,
} from "../../src/model/json.ts";
import { writeJson } from "../../src/model/kept-text.ts";

const ROOM = 2 ** 26;

/** Makes a body long enough to be remembered. */
const LONG = "-".repeat(9_000);

let bodies: KnownBodies;
beforeEach(() => (bodies = new KnownBodies(ROOM)));

/** The result of a parse: the value and its counts, or the kind of refusal. */
function outcome(parse: (budget: JsonBudget) => unknown, limits: JsonLimits = DEFAULT_JSON_LIMITS): unknown {
  const budget = new JsonBudget(limits);
  let booked = 0;
  budget.booking = { take: (bytes) => (booked += bytes) };
  try {
    const value = parse(budget);
    const { values, items, names, chars, isLarge } = budget;
    expect(booked).toBeGreaterThanOrEqual(values * VALUE_BYTES);
    return { text: JSON.stringify(value).replace(LONG, "…"), values, items, names, chars, isLarge };
  } catch (error) {
    return (error as Error).name;
  }
}

const known = (text: string, limits?: JsonLimits): unknown =>
  outcome((budget) => bodies.parse("key", text, budget), limits);
const alone = (text: string, limits?: JsonLimits): unknown => outcome((budget) => parseJson(text, budget), limits);

/** Returns the memory that a parse books, in bytes. */
const bookedBy = (parse: (budget: JsonBudget) => unknown): number => {
  const budget = new JsonBudget();
  let booked = 0;
  budget.booking = { take: (bytes) => (booked += bytes) };
  try {
    parse(budget);
  } catch {
    // One of the texts is no JSON.
  }
  return booked;
};

const parsed = (text: string, keyId = "key"): JsonObject => bodies.parse(keyId, text, new JsonBudget()) as JsonObject;

const messagesOf = (text: string, keyId?: string): readonly Turn[] =>
  (parsed(text, keyId) as unknown as { messages: Turn[] }).messages;

interface Turn {
  readonly role: string;
  readonly content: unknown;
}

const turns = (count: number): Turn[] =>
  Array.from({ length: count }, (_, index) => ({ role: index % 2 ? "assistant" : "user", content: `turn ${index}` }));
const repeated = (count: number, value: unknown): unknown[] => Array.from({ length: count }, () => value);
const bodyOf = (messages: readonly unknown[], system: unknown = LONG): string =>
  JSON.stringify({ model: "m", messages, system });

describe("a body that repeats an earlier one", () => {
  it("shares its values with it", () => {
    const one = messagesOf(bodyOf(turns(6)));
    const other = messagesOf(bodyOf(turns(8)));
    expect(other.slice(0, 6).every((turn, index) => turn === one[index])).toBe(true);
    expect(other).toEqual(turns(8));
  });

  it("shares all but a turn that has changed", () => {
    const changed = turns(6).map((turn, index) => (index === 2 ? { ...turn, content: "another" } : turn));
    const one = messagesOf(bodyOf(turns(6)));
    const other = messagesOf(bodyOf(changed));
    expect(other).toEqual(changed);
    expect(other.map((turn, index) => turn === one[index])).toEqual([true, true, false, true, true, true]);
  });

  it("finds its own conversation among others of the key", () => {
    const conversations = Array.from({ length: 5 }, (_, index) =>
      turns(4).map((turn) => ({ ...turn, content: `${index}`.repeat(4_000) })),
    );
    const firsts = conversations.map((each) => messagesOf(bodyOf(each)));
    for (const [index, each] of conversations.entries()) {
      const [turn] = messagesOf(bodyOf([...each, "more"]));
      expect(turn).toBe(firsts[index]?.[0]);
    }
  });

  it("shares nothing with another key, and nothing that does not fit the memory", () => {
    const [one] = messagesOf(bodyOf(turns(2)));
    expect(messagesOf(bodyOf(turns(2)), "other")[0]).not.toBe(one);
    bodies = new KnownBodies(1);
    const [kept] = messagesOf(bodyOf(turns(2)));
    expect(messagesOf(bodyOf(turns(2)))[0]).not.toBe(kept);
  });

  it("finds nothing of a body that others have pushed out", () => {
    bodies = new KnownBodies(100_000);
    const first = messagesOf(bodyOf(turns(2)));
    expect(messagesOf(bodyOf(turns(2)))[0]).toBe(first[0]);
    for (let index = 0; index < 8; index++) parsed(bodyOf([index], `${index}${LONG}`), `key ${index}`);
    expect(messagesOf(bodyOf(turns(2)))[0]).not.toBe(first[0]);
  });

  it("keeps few bodies of a key", () => {
    const first = messagesOf(bodyOf(turns(1), `0${LONG}`));
    for (let index = 1; index <= 64; index++) parsed(bodyOf([index], `${index}`.repeat(9_000)));
    expect(messagesOf(bodyOf(turns(1), `0${LONG}`))[0]).not.toBe(first[0]);
  });

  it("pushes out bodies of its own key before it takes more than half of the memory from others", () => {
    bodies = new KnownBodies(200_000);
    const [other] = messagesOf(bodyOf(turns(2)), "other");
    for (let index = 0; index < 40; index++) parsed(bodyOf([index], `${index}`.repeat(9_000)));
    expect(messagesOf(bodyOf(turns(2)), "other")[0]).toBe(other);
  });

  it("shares nothing with what was there before all was let go", () => {
    const [one] = messagesOf(bodyOf(turns(2)));
    bodies.clear();
    expect(messagesOf(bodyOf(turns(2)))[0]).not.toBe(one);
  });

  it("shares no element of an array of short ones, or of very many", () => {
    for (const list of [repeated(65, { a: 1 }), repeated(5_000, { text: "x".repeat(40) })]) {
      const [one] = messagesOf(bodyOf([...list, 1]));
      const other = messagesOf(bodyOf([...list, 2]));
      expect(other).toEqual([...list, 2]);
      expect(other[0]).not.toBe(one);
      expect(known(bodyOf([...list, 3]))).toEqual(alone(bodyOf([...list, 3])));
    }
  });

  it("is large each time", () => {
    for (const text of [bodyOf([repeated(10_001, 1)]), bodyOf(turns(2), "x".repeat(2 ** 21))])
      for (let time = 0; time < 3; time++) {
        const budget = new JsonBudget();
        bodies.parse("key", text, budget);
        expect(budget.isLarge).toBe(true);
      }
  });

  it("takes no number for the beginning of a longer one", () => {
    parsed(`{"system":"${LONG}","messages":[1,2],"a":1,"b":2}`);
    expect(parsed(`{"system":"${LONG}","messages":[12,2,3],"a":10,"b":2}`)).toEqual({
      system: LONG,
      messages: [12, 2, 3],
      a: 10,
      b: 2,
    });
  });

  it("cannot be changed by a host", () => {
    const { messages } = parsed(bodyOf(turns(2))) as unknown as { messages: { content: string }[] };
    expect(() => ((messages[0] as { content: string }).content = "changed")).toThrow(TypeError);
    expect(() => messages.push({ content: "more" })).toThrow(TypeError);
  });

  it("keeps its text for the upstream", () => {
    parsed(bodyOf(turns(4)));
    const text = `{ "messages" : ${JSON.stringify(turns(6))} , "system":${JSON.stringify(LONG)},"model":"m", "top_p":1.0}`;
    const body = parsed(text);
    expect(writeJson({ ...body, model: "other" }, body)).toBe(text.replace('"m"', '"other"'));
  });
});

describe("every body", () => {
  const json = fc.json({ maxDepth: 3 });
  const name = fc.constantFrom("a", "b", "messages", "tools", "__proto__", "a\\u0062", "", "1", "a b");
  const space = fc.constantFrom("", " ", "\n\t");
  const list = fc.array(json, { maxLength: 6 });
  const written = fc
    .tuple(
      fc.array(
        fc.tuple(
          space,
          name,
          space,
          fc.oneof(
            json,
            list.map((items) => `[ ${items.join(" ,")}]`),
          ),
          space,
        ),
        { maxLength: 6 },
      ),
      space,
    )
    .map(
      ([members, end]) =>
        `${end}{${members.map(([before, key, middle, value, after]) => `${before}"${key}"${middle}:${middle}${value}${after}`).join(",")}}${end}`,
    );
  /** Changes a text at a place, often so that it is no JSON any more. */
  const edit = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.nat({ max: 3 }),
    put: fc.constantFrom(
      "",
      ",",
      "]",
      "}",
      '"',
      "1",
      ",1",
      "[",
      "{}",
      " ",
      ":",
      "\\",
      '"x":1,',
      "],[",
      "},{",
      "-",
      "e5",
    ),
  });

  it("has the values and the counts of a whole parse, or is refused alike, after any other", () => {
    fc.assert(
      fc.property(written, fc.array(edit, { maxLength: 12 }), fc.boolean(), (first, edits, isFirst) => {
        bodies = new KnownBodies(ROOM);
        const pad = isFirst ? `{"system":"${LONG}",` : "";
        let text = isFirst
          ? first.trim().replace(/^\{\s*/, pad)
          : first.trim().replace(/\s*\}$/, `,"system":"${LONG}"}`);
        for (const { at, cut, put } of [{ at: 0, cut: 0, put: "" }, ...edits]) {
          const place = Math.floor(at * text.length);
          text = text.slice(0, place) + put + text.slice(place + cut);
          const [one, other] = [known(text), alone(text)];
          expect(one).toEqual(other);
          if (typeof one === "string") text = first;
        }
      }),
      { numRuns: 300 },
    );
  });

  it.each(['"a\\\\u0062":1', '"__proto__":1', '"a":1}}'])("with %s at its end, is booked once", (end) => {
    const text = `{"system":${JSON.stringify(LONG)},"messages":${JSON.stringify(turns(50))},${end}}`;
    expect(bookedBy((budget) => bodies.parse("key", text, budget))).toBe(bookedBy((budget) => parseJson(text, budget)));
  });

  it.each([3, 300])("counts %i members of one name as so many", (most) => {
    const text = `{"system":${JSON.stringify(LONG)}${',"a":1'.repeat(most)}}`;
    const limits = { ...DEFAULT_JSON_LIMITS, maxJsonKeys: most };
    expect(known(text, limits)).toBe("JsonLimitError");
    expect(known(text, { ...limits, maxJsonKeys: most + 1 })).toEqual(alone(text));
  });

  it("has the values of a whole parse, with much white space at any place", () => {
    const space = " \n\t\r".repeat(40);
    const text = `${space}{${space}"a"${space}:${space}[${space}1${space},${space}2${space}]${space},${space}"system":${space}"${LONG}"${space}}${space}`;
    for (let time = 0; time < 2; time++) expect(known(text)).toEqual(alone(text));
    expect(known(text.slice(0, -1) + "x")).toBe("SyntaxError");
  });

  describe("meets a limit", () => {
    const text = bodyOf([...turns(5), { deep: [[[{ x: [] }]]] }], [{ text: LONG }]);
    const { values, items } = alone(text) as { values: number; items: number };
    const exact = {
      maxJsonValues: values,
      maxJsonItems: items,
      maxJsonBytes: text.length,
      maxJsonDepth: 8,
      maxJsonKeys: 3,
    };
    const names = Object.keys(exact) as (keyof typeof exact)[];

    it.each(names)("%s, as the first of its key", (name) => {
      for (const less of [0, 1]) {
        bodies = new KnownBodies(ROOM);
        const limits = { ...DEFAULT_JSON_LIMITS, [name]: exact[name] - less };
        expect(alone(text, limits)).toEqual(less ? "JsonLimitError" : alone(text));
        expect(known(text, limits)).toEqual(alone(text, limits));
      }
    });

    // All bodies of a gateway have the same limits: a piece that was within the limits of a piece is so again.
    it.each(["maxJsonValues", "maxJsonItems", "maxJsonBytes"] as const)("%s, where it repeats another", (name) => {
      for (const less of [0, 1]) {
        known(text);
        const limits = { ...DEFAULT_JSON_LIMITS, [name]: exact[name] - less };
        expect(known(text, limits)).toEqual(alone(text, limits));
      }
    });
  });
});

describe("the schema of a repeated body", () => {
  const turn = object({ role: v.picklist(["user", "assistant"]), content: v.string() });
  const Body = object({ messages: array(turn) });

  it("is asked for new turns only", () => {
    let asked = 0;
    const Counted = object({
      messages: array(
        v.pipe(
          turn,
          v.check(() => ++asked > 0),
        ),
      ),
    });
    for (const [count, sum] of [
      [4, 4],
      [6, 6],
      [6, 6],
    ] as const) {
      assertValid(Counted, parsed(bodyOf(turns(count))));
      expect(asked).toBe(sum);
    }
  });

  it("refuses a wrong turn each time, and holds turns to each schema", () => {
    const wrong = bodyOf([...turns(3), { role: "nobody", content: "" }, ...turns(2)]);
    for (let time = 0; time < 3; time++) expect(() => assertValid(Body, parsed(wrong))).toThrow("messages.3.role");
    const Narrow = object({ messages: array(object({ role: v.literal("user") })) });
    assertValid(Body, parsed(bodyOf(turns(4))));
    expect(() => assertValid(Narrow, parsed(bodyOf(turns(4))))).toThrow("messages.1.role");
  });

  it("tells an unknown type of a repeated turn again", () => {
    const Typed = object({ messages: array(openVariant([object({ type: v.literal("text") })])) });
    const body = bodyOf([{ type: "text" }, { type: "new" }, { type: "text" }]);
    for (let time = 0; time < 3; time++) {
      const value = parsed(body);
      assertValid(Typed, value);
      expect(unknownIn(value)).toThrow("messages.1.type");
    }
  });
});
