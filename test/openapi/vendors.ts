/** Derives schemas from the types that the official SDKs declare, and judges values by them. Nothing of the vendors is copied. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
// The file by its path: the compiler's API is a package inside of another one.
import type * as TypeScript from "../../node_modules/@arethetypeswrong/core/node_modules/typescript/lib/typescript.d.ts";

/** A schema: a reference into the table, a set of literals, a primitive type, or a compound. `any` takes every value. */
export type Schema =
  | { readonly ref: string }
  | { readonly literal: string | number | boolean | null }
  | { readonly type: "string" | "number" | "boolean" | "any" }
  | { readonly items: Schema }
  | { readonly anyOf: readonly Schema[] }
  | {
      readonly properties: Readonly<Record<string, Schema>>;
      readonly required: readonly string[];
      readonly rest?: Schema;
    };

export type Schemas = Readonly<Record<string, Schema>>;

const ROOT = join(import.meta.dirname, "..", "..");
const CACHE = join(ROOT, "node_modules", ".cache", "vendors");
const require = createRequire(import.meta.url);

/**
 * Returns the schemas of the types in a TypeScript source, by the names that it exports. The result is kept by the source, and by the
 * versions of the packages that the source imports: to read their declarations takes seconds.
 */
export function schemasOf(source: string): Schemas {
  const packages = [...source.matchAll(/from "((?:@[^/"]+\/)?[^/"]+)/g)].map(([, name]) => name ?? "");
  const versions = [...new Set(packages)].map((name) => versionOf(name));
  const key = JSON.stringify([source, versions, readFileSync(import.meta.filename, "utf8")]);
  const file = join(CACHE, "schemas.json");
  try {
    const kept = JSON.parse(readFileSync(file, "utf8")) as { key: string; schemas: Schemas };
    if (kept.key === key) return kept.schemas;
  } catch {
    // Nothing is kept yet.
  }
  const schemas = derived(source);
  mkdirSync(CACHE, { recursive: true });
  writeFileSync(file, JSON.stringify({ key, schemas }));
  return schemas;
}

const versionOf = (name: string): string =>
  (JSON.parse(readFileSync(join(ROOT, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

function derived(source: string): Schemas {
  // The project's own compiler has no API in JavaScript. Use the TypeScript of another tool.
  const ts = createRequire(require.resolve("@arethetypeswrong/core"))("typescript") as typeof TypeScript;
  const entry = join(ROOT, "test", "openapi", "virtual.ts");
  const options: TypeScript.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
    types: [],
    strict: true,
    skipLibCheck: true,
    exactOptionalPropertyTypes: true,
  };
  const files = ts.createCompilerHost(options);
  const host: TypeScript.CompilerHost = {
    ...files,
    fileExists: (name) => name === entry || files.fileExists(name),
    getSourceFile: (name, ...rest) =>
      name === entry ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2022) : files.getSourceFile(name, ...rest),
  };
  const program = ts.createProgram([entry], options, host);
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(entry);
  const module = file && checker.getSymbolAtLocation(file);
  if (!module) throw new Error("The source exports nothing.");

  const schemas: Record<string, Schema> = {};
  const known = new Map<TypeScript.Type, string>();

  const literalsOf = (type: TypeScript.Type): Schema | undefined => {
    const { flags } = type;
    if (type.isStringLiteral() || type.isNumberLiteral()) return { literal: type.value };
    if (flags & ts.TypeFlags.BooleanLiteral) return { literal: checker.typeToString(type) === "true" };
    if (flags & ts.TypeFlags.Null) return { literal: null };
    return undefined;
  };

  function schemaOf(type: TypeScript.Type): Schema {
    const literal = literalsOf(type);
    if (literal) return literal;
    const { flags } = type;
    if (flags & ts.TypeFlags.StringLike) return { type: "string" };
    if (flags & ts.TypeFlags.NumberLike && !type.isUnion()) return { type: "number" };
    if (flags & ts.TypeFlags.Boolean) return { type: "boolean" };
    if (type.isUnion())
      return { anyOf: type.types.filter(({ flags: inner }) => !(inner & ts.TypeFlags.Undefined)).map(schemaOf) };
    // `string & {}` keeps the names of known values for editors.
    const plain = type.isIntersection() && type.types.find(({ flags: inner }) => inner & ts.TypeFlags.StringLike);
    if (plain) return { type: "string" };
    if (!(flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return { type: "any" };
    if (checker.isArrayType(type)) {
      const [items] = checker.getTypeArguments(type as TypeScript.TypeReference);
      return { items: items ? schemaOf(items) : { type: "any" } };
    }
    return { ref: refOf(type) };
  }

  function refOf(type: TypeScript.Type): string {
    const found = known.get(type);
    if (found !== undefined) return found;
    const name = `${known.size} ${checker.typeToString(type).slice(0, 60)}`;
    known.set(type, name);
    const properties: Record<string, Schema> = {};
    const required: string[] = [];
    for (const property of type.getProperties()) {
      // A method or a getter is the SDK's own.
      if (property.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Accessor)) continue;
      const inner = checker.getTypeOfSymbol(property);
      properties[property.name] = schemaOf(inner);
      const isOptional = property.flags & ts.SymbolFlags.Optional || inner.flags & ts.TypeFlags.Undefined;
      if (!isOptional) required.push(property.name);
    }
    const rest = type.getStringIndexType();
    schemas[name] = { properties, required, ...(rest && { rest: schemaOf(rest) }) };
    return name;
  }

  for (const symbol of checker.getExportsOfModule(module)) {
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    if (checker.typeToString(type) === "any") throw new Error(`${symbol.name} is no type.`);
    schemas[symbol.name] = schemaOf(type);
  }
  return schemas;
}

/** Lists what is wrong with a value, each with its path. Fields that a schema does not name are none of its business. */
export function wrongBy(schemas: Schemas, schema: Schema, value: unknown, path = ""): string[] {
  const at = (key: string | number): string => (path === "" ? `${key}` : `${path}.${key}`);
  const wrong = (wanted: string): string[] => [`${path}: ${JSON.stringify(value)?.slice(0, 60)} is not ${wanted}`];
  if ("ref" in schema) return wrongBy(schemas, schemas[schema.ref] ?? { type: "any" }, value, path);
  if ("literal" in schema) return value === schema.literal ? [] : wrong(JSON.stringify(schema.literal));
  if ("type" in schema) return schema.type === "any" || typeof value === schema.type ? [] : wrong(schema.type);
  if ("items" in schema) {
    if (!Array.isArray(value)) return wrong("a list");
    return value.flatMap((item, index) => wrongBy(schemas, schema.items, item, at(index)));
  }
  if ("anyOf" in schema) return bestOf(schemas, schema.anyOf, value, path) ?? wrong(describe(schema));
  if (typeof value !== "object" || value === null || Array.isArray(value)) return wrong("an object");
  const fields = value as Readonly<Record<string, unknown>>;
  const missing = schema.required.filter((key) => fields[key] === undefined).map((key) => `${at(key)} is missing`);
  const inner = Object.entries(fields).flatMap(([key, field]) => {
    const own = schema.properties[key] ?? schema.rest;
    return own ? wrongBy(schemas, own, field, at(key)) : [];
  });
  return [...missing, ...inner];
}

/** Returns what is wrong by the alternative that fits best; undefined for a value of a type that none has. */
function bestOf(schemas: Schemas, anyOf: readonly Schema[], value: unknown, path: string): string[] | undefined {
  const fields = value as Readonly<Record<string, unknown>>;
  let best: string[] | undefined;
  for (const schema of anyOf.map((one) => ("ref" in one ? (schemas[one.ref] ?? one) : one))) {
    // Skip the alternatives whose fixed fields, such as `type`, have another value.
    if ("properties" in schema) {
      if (typeof value !== "object" || value === null || Array.isArray(value)) continue;
      const other = Object.entries(schema.properties).some(
        ([key, own]) => "literal" in own && schema.required.includes(key) && fields[key] !== own.literal,
      );
      if (other) continue;
    } else if ("literal" in schema || "type" in schema || "items" in schema) {
      if (wrongBy({}, "items" in schema ? { items: { type: "any" } } : schema, value).length > 0) continue;
    }
    const found = wrongBy(schemas, schema, value, path);
    if (found.length === 0) return found;
    if (!best || found.length < best.length) best = found;
  }
  return best;
}

const describe = ({ anyOf }: { readonly anyOf: readonly Schema[] }): string =>
  anyOf
    .map((one) => ("ref" in one ? one.ref.replace(/^\d+ /, "") : JSON.stringify(Object.values(one)[0])))
    .join(" | ")
    .slice(0, 200);
