/**
 * Finds what a body says that the neutral model has no words for: the fields that its schema does not name, and those that it marks.
 * Another format cannot be told of them.
 */

import * as v from "valibot";
import { type Shape, shapeOf } from "../../http/validation.shape.ts";
import { isJsonObject } from "../../model/json.ts";

/** How many are told by name; who sends more is told of the first. */
const MAX_UNSAID = 32;
/** How much of a name is told, in characters. */
const MAX_NAME_CHARS = 100;

/** Whether what stands in a field is lost. */
type IsUnsaid = (value: unknown) => boolean;

interface Mark extends v.BaseMetadata<unknown> {
  readonly type: "unsaid" | "whole";
  readonly isUnsaid: IsUnsaid;
}

const markOf = (schema: v.GenericSchema, type: Mark["type"]): Mark | undefined =>
  (schema as { readonly pipe?: readonly { readonly type: string }[] }).pipe?.find((item) => item.type === type) as
    | Mark
    | undefined;

const marked = <const Schema extends v.GenericSchema>(schema: Schema, type: Mark["type"], isUnsaid: IsUnsaid): Schema =>
  v.pipe(schema, { kind: "metadata", type, reference: marked, isUnsaid } as Mark) as unknown as Schema;

/** A field that the neutral model has no words for; or none for those of its values that `isUnsaid` tells. */
export const unsaid = <const Schema extends v.GenericSchema>(
  schema: Schema,
  isUnsaid: (value: NonNullable<v.InferOutput<Schema>>) => boolean = () => true,
): Schema => marked(schema, "unsaid", isUnsaid as IsUnsaid);

/** An object that the neutral model carries as it is: no field in it that its schema does not name is lost. */
export const whole = <const Schema extends v.GenericSchema>(schema: Schema): Schema =>
  marked(schema, "whole", () => false);

/** Adds to `found` what a value has no words for. */
type Walk = (value: unknown, found: Set<string>) => void;

/**
 * Gives the paths, as keys with dots between, of what in a body has no words; each once. Lists have no place in a path.
 *
 * @param found What was found in bodies before: it is not told again.
 */
export type UnsaidFinder = (body: unknown, found?: Set<string>) => string[];

export function unsaidFinder(schema: v.GenericSchema): UnsaidFinder {
  let walk: Walk | undefined;
  return (body, found = new Set()) => {
    const before = found.size;
    (walk ??= walkOf(schema, ""))?.(body, found);
    return [...found].slice(before);
  };
}

/** The walk over the values of a schema; undefined where there is nothing in them to look at. */
function walkOf(schema: v.GenericSchema, path: string): Walk | undefined {
  const { wrapped, item, entries, "~choose": choose } = shapeOf(schema);
  if (wrapped) return walkOf(wrapped, path);
  if (choose) return ofChoice(choose, path);
  if (item) return ofList(walkOf(item, path));
  // An object that no field is named of is the caller's own.
  return entries && Object.keys(entries).length > 0 ? ofObject(schema, entries, path) : undefined;
}

function ofChoice(choose: NonNullable<Shape["~choose"]>, path: string): Walk {
  const walks = new Map<v.GenericSchema, Walk>();
  return (value, found) => {
    // A text may stand where an object does.
    if (typeof value !== "object") return;
    const chosen = choose(value);
    let walk = walks.get(chosen);
    if (!walk) walks.set(chosen, (walk = walkOf(chosen, path) ?? nothing));
    walk(value, found);
  };
}

const nothing: Walk = () => {};

function ofList(walk: Walk | undefined): Walk | undefined {
  if (!walk) return undefined;
  return (value, found) => {
    if (Array.isArray(value)) for (const item of value) walk(item, found);
  };
}

interface Field {
  readonly isUnsaid: IsUnsaid | undefined;
  readonly walk: Walk | undefined;
}

/** One that the neutral model has words for, with nothing in it to look at. */
const SAID: Field = { isUnsaid: undefined, walk: undefined };

function fieldOf(schema: v.GenericSchema, path: string): Field {
  const [isUnsaid, walk] = [markOf(schema, "unsaid")?.isUnsaid, walkOf(schema, path)];
  return isUnsaid || walk ? { isUnsaid, walk } : SAID;
}

function ofObject(schema: v.GenericSchema, entries: NonNullable<Shape["entries"]>, path: string): Walk {
  const pathTo = (key: string): string => (path === "" ? "" : `${path}.`) + key.slice(0, MAX_NAME_CHARS);
  const fields = new Map(
    Object.entries(entries).map(([key, field]): [string, Field] => [key, fieldOf(field, pathTo(key))]),
  );
  const isWhole = markOf(schema, "whole") !== undefined;
  return (value, found) => {
    if (!isJsonObject(value)) return;
    for (const key in value) {
      const field = fields.get(key);
      // Most of the fields of most bodies are not looked at.
      if (field === SAID) continue;
      const inner = value[key];
      const isLost = field ? field.isUnsaid !== undefined && inner != null && field.isUnsaid(inner) : !isWhole;
      if (!isLost) field?.walk?.(inner, found);
      else if (found.size < MAX_UNSAID && !isNothing(inner)) found.add(pathTo(key));
    }
  };
}

/** What is null or empty says nothing. */
const isNothing = (value: unknown): boolean =>
  value == null || (typeof value === "object" && Object.keys(value).length === 0);
