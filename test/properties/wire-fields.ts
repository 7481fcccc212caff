/** Changes a body field by field, as its wire schema names them, to see whether what is read of it changes too. */

import type * as v from "valibot";
import { shapeOf } from "../../src/http/validation.ts";

type Key = string | number;

/** A field of a body: where it stands there, and where in its schema, as keys with dots between. */
interface Field {
  readonly at: readonly Key[];
  readonly path: string;
  readonly schema: v.GenericSchema;
  readonly value: unknown;
}

/** What is read of a body. */
export interface Read {
  /** What the neutral model says. */
  readonly said: unknown;
  /** The paths of what it has no words for. */
  readonly unsupported: readonly string[];
}

const pathTo = (path: string, key: string): string => (path === "" ? key : `${path}.${key}`);
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isSchema = (option: unknown): option is v.GenericSchema => isObject(option) && option["kind"] === "schema";

/** The paths of all fields that a schema names. */
function fieldsIn(schema: v.GenericSchema, path = ""): Set<string> {
  const { wrapped, item, entries = {}, options = [] } = shapeOf(schema);
  const within = [wrapped, item, ...options].filter(isSchema).flatMap((inner) => [...fieldsIn(inner, path)]);
  const named = Object.entries(entries).flatMap(([key, inner]) => {
    const at = pathTo(path, key);
    return [at, ...fieldsIn(inner, at)];
  });
  return new Set([...within, ...named]);
}

/** Each field of a body that its schema names. */
function* fieldsOf(
  schema: v.GenericSchema,
  value: unknown,
  path = "",
  at: readonly Key[] = [],
): Generator<Field | Omit<Field, "schema">> {
  const shape = shapeOf(schema);
  const { wrapped, item, entries } = shape;
  const options = (shape.options ?? []).filter(isSchema);
  if (wrapped) return yield* fieldsOf(wrapped, value, path, at);
  if (options.length > 0) {
    const [first] = options;
    const chosen = shape["~choose"]?.(value) ?? first;
    // What is only carried is looked into too, where it has a shape.
    const isOpen = chosen !== undefined && !named(chosen) && !shapeOf(chosen).options;
    const shaped = isObject(value) && isOpen ? options.find(named) : undefined;
    const inner = shaped ?? chosen;
    return inner && (yield* fieldsOf(inner, value, path, at));
  }
  if (item && Array.isArray(value))
    for (const [index, one] of value.entries()) {
      yield { at: [...at, index], path, schema: item, value: one };
      yield* fieldsOf(item, one, path, [...at, index]);
    }
  if (!named(schema) || !isObject(value)) return;
  yield { at: [...at, "unknown_field"], path: pathTo(path, "unknown_field"), value: undefined };
  for (const [key, inner] of Object.entries(entries ?? {})) {
    if (!(key in value)) continue;
    const field = { at: [...at, key], path: pathTo(path, key), value: value[key] };
    yield { ...field, schema: inner };
    yield* fieldsOf(inner, value[key], field.path, field.at);
  }
}

const named = (schema: v.GenericSchema | undefined): boolean =>
  schema !== undefined && Object.keys(shapeOf(schema).entries ?? {}).length > 0;

/** Other values that a field may have. */
function others({ value, ...field }: Field | Omit<Field, "schema">): readonly unknown[] {
  if (!("schema" in field)) return ["?"];
  const shape = innermost(field.schema);
  // By these, objects of several kinds are told apart.
  if (shape.type === "literal") return [];
  if (shape.type === "picklist") return (shape.options as readonly unknown[]).filter((option) => option !== value);
  // Base64 stays what it is.
  if (typeof value === "string") return [value + value];
  if (typeof value === "number") return [value + 1];
  if (typeof value === "boolean") return [!value];
  // An object that its schema names no field of.
  const isOpen = isObject(value) && fieldsOf(field.schema, value).next().done;
  return isOpen ? [{ ...value, other: 1 }] : [];
}

function innermost(schema: v.GenericSchema): ReturnType<typeof shapeOf> {
  const shape = shapeOf(schema);
  return shape.wrapped ? innermost(shape.wrapped) : shape;
}

function changed(body: unknown, [key, ...rest]: readonly Key[], value: unknown): unknown {
  if (key === undefined) return value;
  if (Array.isArray(body)) return body.map((one: unknown, index) => (index === key ? changed(one, rest, value) : one));
  return isObject(body) ? { ...body, [key]: changed(body[key], rest, value) } : body;
}

/** What is known of a schema's fields from bodies of it. */
export class Fields {
  /** Changes that make no difference to what is read, and are not told. */
  readonly silent: Set<string> = new Set();
  readonly #seen: Set<string> = new Set();
  readonly #all: ReadonlySet<string>;
  readonly #schema: v.GenericSchema;

  constructor(schema: v.GenericSchema) {
    this.#schema = schema;
    this.#all = fieldsIn(schema);
  }

  /** The fields that no body had. */
  get unseen(): string[] {
    return [...this.#all].filter((path) => !this.#seen.has(path));
  }

  /** Changes each field of a body. @param read Reads a body; it need not be valid. */
  see(body: unknown, read: (body: unknown) => Read): void {
    const before = read(body);
    for (const field of fieldsOf(this.#schema, body)) {
      this.#seen.add(field.path);
      for (const other of others(field)) {
        const after = read(changed(body, field.at, other));
        const isTold = [...before.unsupported, ...after.unsupported].some((told) =>
          `${field.path}.`.startsWith(`${told}.`),
        );
        if (!isTold && JSON.stringify(before.said) === JSON.stringify(after.said))
          this.silent.add(`${field.path}: ${JSON.stringify(field.value)} → ${JSON.stringify(other)}`);
      }
    }
  }
}
