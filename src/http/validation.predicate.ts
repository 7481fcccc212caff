/** Compiles a schema into a function that only says whether a value is valid: no copies, no issues, an end at the first breach. */

import * as v from "valibot";

/** Tells whether a value is valid. */
export type Predicate = (input: unknown) => boolean;

/** Gives the predicate of a schema. */
export type PredicateOf = (schema: v.GenericSchema) => Predicate;

/** A schema or an action that brings its own predicate. One that replaces `~run` must: a predicate would not know of that. */
export interface Predicated {
  readonly "~predicate": (of: PredicateOf) => Predicate;
}

type Action = v.PipeItem<unknown, unknown, v.BaseIssue<unknown>>;

const compiled = new WeakMap<v.GenericSchema, Predicate>();

/**
 * The predicate of a schema. Its verdict is valibot's, for every input. Schemas and actions that it does not know are asked
 * through valibot itself.
 */
export function predicateOf(schema: v.GenericSchema): Predicate {
  let predicate = compiled.get(schema);
  if (!predicate) compiled.set(schema, (predicate = compile(schema)));
  return predicate;
}

/** `v.is`, at a fraction of its cost. */
export const isValid = <Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
): value is v.InferOutput<Schema> => predicateOf(schema)(value);

function compile(schema: v.GenericSchema): Predicate {
  if ("fallback" in schema) return asValibot(schema);
  if ("pipe" in schema) return ofPipe(schema as PipeOf);
  return own(schema) ?? SCHEMAS.get(schema.reference)?.(schema) ?? asValibot(schema);
}

const own = (item: object): Predicate | undefined =>
  "~predicate" in item ? (item as Predicated)["~predicate"](predicateOf) : undefined;

const CONFIG = { abortEarly: true } as const;

const asValibot =
  (schema: v.GenericSchema): Predicate =>
  (value) =>
    !schema["~run"]({ value }, CONFIG).issues;

interface PipeOf extends v.GenericSchema {
  readonly pipe: readonly Action[];
}

/** All of a pipe's items hold, provided that none of them changes the value. */
function ofPipe(schema: PipeOf): Predicate {
  const items = schema.pipe.filter(({ kind }) => kind !== "metadata");
  if (items.some(({ kind }) => kind === "transformation")) return asValibot(schema);
  const [first = anything, second, ...others] = items.map(ofItem);
  if (!second) return first;
  if (others.length === 0) return (input) => first(input) && second(input);
  const rest = [second, ...others];
  return (input) => first(input) && rest.every((holds) => holds(input));
}

const anything: Predicate = () => true;

function ofItem(item: Action): Predicate {
  if (item.kind === "schema") return predicateOf(item);
  const action = item as v.GenericValidation & { readonly requirement?: unknown };
  return own(action) ?? ACTIONS.get(action.reference)?.(action.requirement) ?? asValibotsAction(action);
}

const asValibotsAction =
  (action: v.GenericValidation): Predicate =>
  (value) =>
    !action["~run"]({ typed: true, value }, CONFIG).issues;

/** The predicate of an action, from what it requires. */
type OfRequirement = (requirement: unknown) => Predicate;

const byFunction: OfRequirement = (requirement) => (input) => (requirement as Predicate)(input);

/** Compares a number that the value has, or is, with the one that is required. */
const comparing =
  (numberOf: (input: unknown) => number, holds: (value: number, bound: number) => boolean): OfRequirement =>
  (bound) =>
  (input) =>
    holds(numberOf(input), bound as number);

// The schema before an action in its pipe has seen to it that the value is of the type.
const itself = (input: unknown): number => input as number;
const lengthOf = (input: unknown): number => (input as { readonly length: number }).length;

const ACTIONS: ReadonlyMap<unknown, OfRequirement> = new Map<unknown, OfRequirement>([
  [v.check, byFunction],
  [v.integer, byFunction],
  [v.finite, byFunction],
  [v.minLength, comparing(lengthOf, (length, least) => length >= least)],
  [v.maxLength, comparing(lengthOf, (length, most) => length <= most)],
  [v.minValue, comparing(itself, (value, least) => value >= least)],
  [v.maxValue, comparing(itself, (value, most) => value <= most)],
  [v.gtValue, comparing(itself, (value, bound) => value > bound)],
  [v.ltValue, comparing(itself, (value, bound) => value < bound)],
]);

type Wrapping = v.GenericSchema & { readonly wrapped: v.GenericSchema; readonly default: unknown };

/** Null or undefined, where the wrapper lets them pass, or else what is wrapped. */
const wrapped =
  (passes: Predicate) =>
  (schema: v.GenericSchema): Predicate => {
    const { wrapped: inner, default: value } = schema as Wrapping;
    if (value !== undefined) return asValibot(schema);
    const holds = predicateOf(inner);
    return (input) => passes(input) || holds(input);
  };

/** Whether undefined is known to be valid without a look at what is wrapped. */
export const mayBeAbsent = (schema: v.GenericSchema): boolean =>
  !("pipe" in schema) &&
  (schema.reference === v.nullish || schema.reference === v.optional) &&
  (schema as Wrapping).default === undefined;

function ofArray(schema: v.GenericSchema): Predicate {
  const holds = predicateOf((schema as v.ArraySchema<v.GenericSchema, undefined>).item);
  return (input) => {
    if (!Array.isArray(input)) return false;
    // By index: a hole counts as undefined, as it does for valibot.
    for (let index = 0; index < input.length; index++) if (!holds(input[index])) return false;
    return true;
  };
}

function ofLiteral(schema: v.GenericSchema): Predicate {
  const { literal } = schema as v.LiteralSchema<v.Literal, undefined>;
  return Number.isNaN(literal) ? Number.isNaN : (input) => input === literal;
}

function ofPicklist(schema: v.GenericSchema): Predicate {
  const options: ReadonlySet<unknown> = new Set((schema as v.PicklistSchema<string[], undefined>).options);
  return (input) => options.has(input);
}

function ofLazy(schema: v.GenericSchema): Predicate {
  const { getter } = schema as v.LazySchema<v.GenericSchema>;
  // Not before a value is there: a schema that holds itself is not made yet.
  return (input) => predicateOf(getter(input))(input);
}

const SCHEMAS: ReadonlyMap<unknown, (schema: v.GenericSchema) => Predicate> = new Map<
  unknown,
  (schema: v.GenericSchema) => Predicate
>([
  [v.unknown, () => anything],
  [v.string, () => (input) => typeof input === "string"],
  [v.number, () => (input) => typeof input === "number" && !Number.isNaN(input)],
  [v.boolean, () => (input) => typeof input === "boolean"],
  [v.literal, ofLiteral],
  [v.picklist, ofPicklist],
  [v.nullish, wrapped((input) => input === null || input === undefined)],
  [v.nullable, wrapped((input) => input === null)],
  [v.optional, wrapped((input) => input === undefined)],
  [v.array, ofArray],
  [v.lazy, ofLazy],
]);
