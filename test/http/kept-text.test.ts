/** A changed object is written from its text: the same values, and no text that another parser could read in another way. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonBudget, type JsonObject } from "../../src/model/json.ts";
import { bookText, forgetText, writeJson } from "../../src/model/kept-text.ts";
import { parsed as parsedBody } from "./intake.ts";

const parsed = (content: string, budget?: JsonBudget): JsonObject => parsedBody(content, budget) as JsonObject;

/** The text of a body whose `model` is replaced. */
const renamed = (text: string): string => {
  const body = parsed(text);
  return writeJson({ ...body, model: "b" }, body);
};

describe("the text of a changed object", () => {
  it("keeps what has not changed, as it was written", () => {
    const body = parsed(' { "a" : [1.0, 1E2,"\\u00e9\\ud800"] ,"model":"a", "gone":null,"z":{"a":{} , "b":"}\\"{"}}\n');
    const { gone: _gone, ...kept } = body;
    expect(writeJson({ ...kept, model: 'b"', new: [true] }, body)).toBe(
      '{ "a" : [1.0, 1E2,"\\u00e9\\ud800"] ,"model":"b\\"","z":{"a":{} , "b":"}\\"{"},"new":[true]}',
    );
    expect(writeJson({ ...body, model: undefined } as unknown as JsonObject, body)).not.toContain("model");
  });

  it("is the text itself where nothing has changed", () => {
    const text = '{ "a" : [1.0, 1E2] ,"model":"a" , "z":{} }';
    const body = parsed(` ${text}\n`);
    expect(writeJson({ ...body, model: "a" }, body)).toBe(text);
    expect(writeJson({ model: "a", z: body["z"] ?? null, a: body["a"] ?? null }, body)).toBe(text);
    expect(writeJson({ ...body, z: {} }, body)).toBe('{ "a" : [1.0, 1E2] ,"model":"a" ,"z":{}}');
    const { z: _z, ...shorter } = body;
    expect(JSON.parse(writeJson({ ...shorter, y: 1 }, body))).toEqual({ a: [1, 100], model: "a", y: 1 });
    const twice = parsed('{"model":"a","model":"a"}');
    expect(writeJson({ ...twice }, twice)).toBe('{"model":"a"}');
  });

  it.each([
    ["a name twice", '{"model":"a","model":"a"}'],
    ["a name twice, once escaped", '{"m":{"role":"a","r\\u006fle":"b"}}'],
    ["a name twice, deep inside", '{"m":[{"a":1},[{"role":"user","x":0,"role":"system"}]]}'],
    ["a name twice around an empty one", '{"m":{"":1,"":{"a":2}}}'],
    ["an escaped name", '{"mod\\u0065l":"a","x":1}'],
    ["a number beyond the doubles", '{"model":"a","x":[-1e999]}'],
    ["half of a character", '{"model":"\ud800"}'],
    ["nothing", "{ }"],
  ])("is written anew where it has %s", (_name, text) => {
    expect(renamed(text)).toBe(JSON.stringify({ ...JSON.parse(text), model: "b" }));
  });

  it("has no name in it that V8 reads as another one, because of an earlier text", () => {
    parsed('{"x":[],"mode\\\\":0}');
    const text = '{"model":"a","fallback":{"x":1,"mode\\u006c":"c"}}';
    const { fallback } = parsed(text);
    expect(renamed(text).includes("u006c")).toBe(Object.hasOwn(fallback as JsonObject, "model"));
  });

  it("keeps a name that is a prototype's", () => {
    const text = '{"__proto__":{"model":"c"},"model":"a","constructor":{"toString":1}}';
    expect(renamed(text)).toBe(text.replace('"a"', '"b"'));
  });

  it("says the values of the changed object, whatever stands in the text", () => {
    const member = fc.tuple(fc.string({ maxLength: 3 }), fc.jsonValue());
    const space = fc.stringMatching(/^[ \n\r\t]{0,3}$/);
    fc.assert(
      fc.property(fc.array(member), space, fc.array(member), fc.nat(3), (members, gap, changes, removed) => {
        const pairs = members.map(
          ([name, value]) => `${JSON.stringify(name)}${gap}:${gap}${JSON.stringify(value, null, gap.length)}${gap}`,
        );
        const body = parsed(`${gap}{${gap}${pairs.join(`,${gap}`)}}${gap}`);
        const left = Object.entries(body).slice(removed);
        const changed = Object.fromEntries([...left, ...changes]) as JsonObject;
        const told: unknown = JSON.parse(writeJson(changed, body));
        expect(told).toEqual(JSON.parse(JSON.stringify(changed)));
      }),
    );
  });

  it("is booked, and let go", () => {
    const booked: number[] = [];
    const budget = new JsonBudget();
    budget.booking = { take: (bytes) => void booked.push(bytes) };
    const text = '{"a" :"é"}';
    const body = parsed(text, budget);
    bookText(body, budget);
    expect(booked.at(-1)).toBe(2 * text.length);
    expect(writeJson(body, body)).toBe(text);
    forgetText(body);
    expect(writeJson(body, body)).toBe(JSON.stringify(body));
    budget.booking = {
      take(bytes) {
        if (bytes === text.length * 2) throw new RangeError("There is no room.");
      },
    };
    const unkept = parsed(text, budget);
    bookText(unkept, budget);
    expect(writeJson(unkept, unkept)).toBe(JSON.stringify(unkept));
  });
});
