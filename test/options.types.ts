/** Finds every object of options that the package's functions take, from their types. */

import { createRequire } from "node:module";
import type * as TypeScript from "../node_modules/@arethetypeswrong/core/node_modules/typescript/lib/typescript.d.ts";
import { entries, ROOT } from "./docs/entries.ts";

// The project's own compiler has no JavaScript API. Use the TypeScript of another tool.
const ts = createRequire(import.meta.resolve("@arethetypeswrong/core"))("typescript") as typeof TypeScript;

/** A step from an argument to an object in it: a field with the object that has it, an entry of a list, or a value of a map. */
export type Step = { readonly field: string; readonly of: object } | "entry" | "value";

/** A field of an object of options. */
export interface Field {
  readonly name: string;
  /** Values of kinds that the field's type does not have. */
  readonly wrong: readonly unknown[];
}

/** An object of options: an argument of a function, or an object at some depth of an argument. */
export interface OptionsObject {
  /** Such as `polygate createGateway`, or `polygate/admin keyAdmin` for a method of what this function returns. */
  readonly factory: string;
  /** The method of what the factory returns, such as `keys.add`; undefined for an argument of the factory itself. */
  readonly method: string | undefined;
  readonly argument: number;
  readonly steps: readonly Step[];
  /** The least that the type requires. */
  readonly sample: object;
  readonly fields: readonly Field[];
}

/** Ports whose methods are all optional: a host's own object may have further fields. */
const OPEN = new Set(["ModelBackend", "GatewayFeature"]);
/**
 * Types of values that the gateway makes, and of formats, whose fields are for the gateway alone. Reports are made by stores. An error,
 * an expected record, `RequestInit` and the gateway of `wrongAddress` are no options either.
 */
const INTERNAL = /\/src\/(?:ports|model|kinds|routes)\b/;
const NOT_OPTIONS = /^(?:Addressed|Error|ExpectedRecord|RequestInit)$|Report$/;

const config = ts.getParsedCommandLineOfConfigFile(
  `${ROOT}test/docs/typedoc.tsconfig.json`,
  {},
  {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (diagnostic) => {
      throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
    },
  },
);
const sources = [...entries().values(), "test/hosts/runtimes.d.ts"].map((source) => ROOT + source);
const program = ts.createProgram(sources, config?.options ?? {});
const checker = program.getTypeChecker();

/** Lists all objects of options of the package. */
export function* optionsObjects(): Generator<OptionsObject> {
  const seen = new Set<TypeScript.Symbol>();
  for (const [entry, source] of entries()) {
    const file = program.getSourceFile(ROOT + source);
    const exported = file && checker.getSymbolAtLocation(file);
    for (const name of exported ? checker.getExportsOfModule(exported) : []) {
      const symbol = name.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(name) : name;
      if (seen.has(symbol) || !(symbol.flags & ts.SymbolFlags.Value)) continue;
      seen.add(symbol);
      // The last overload is the widest.
      const signature = checker.getTypeOfSymbol(symbol).getCallSignatures().at(-1);
      if (!signature) continue;
      const factory = `${entry} ${name.name}`;
      yield* argumentsOf(signature, factory, undefined);
      const returned = signature.getReturnType();
      yield* methodsOf(checker.getAwaitedType(returned) ?? returned, factory, "");
    }
  }
}

function* argumentsOf(
  signature: TypeScript.Signature,
  factory: string,
  method: string | undefined,
): Generator<OptionsObject> {
  for (const [argument, parameter] of signature.getParameters().entries()) {
    const type = checker.getTypeOfSymbol(parameter);
    const isOwn = alternatives(type).every(
      (one) =>
        !INTERNAL.test(fileOf(one.symbol)) &&
        one.aliasSymbol?.name !== "Pick" &&
        !NOT_OPTIONS.test(one.symbol?.name ?? ""),
    );
    if (isOwn) for (const found of objectsIn(type, [], [])) yield { factory, method, argument, ...found };
  }
}

/** Lists the options of the methods of what a factory returns, and of the methods of its `keys`. */
function* methodsOf(returned: TypeScript.Type, factory: string, path: string): Generator<OptionsObject> {
  if (returned.symbol?.name === "GatewayFormat") return;
  for (const property of returned.getProperties()) {
    const file = fileOf(property);
    const isPrivate = property.name.startsWith("#");
    if (isPrivate || !file.startsWith(ROOT) || file.includes("/node_modules/") || INTERNAL.test(file)) continue;
    const type = checker.getTypeOfSymbol(property);
    for (const signature of type.getCallSignatures()) yield* argumentsOf(signature, factory, path + property.name);
    if (property.name === "keys" && path === "") yield* methodsOf(type, factory, "keys.");
  }
}

function* objectsIn(
  type: TypeScript.Type,
  steps: readonly Step[],
  outer: readonly TypeScript.Type[],
): Generator<Pick<OptionsObject, "steps" | "sample" | "fields">> {
  for (const one of alternatives(type)) {
    if (!isObject(one) || outer.includes(one)) continue;
    const inner = [...outer, one];
    const [entry] = checker.isArrayLikeType(one) ? checker.getTypeArguments(one as TypeScript.TypeReference) : [];
    const value = one.getStringIndexType();
    if (entry) yield* objectsIn(entry, [...steps, "entry"], inner);
    else if (value) yield* objectsIn(value, [...steps, "value"], inner);
    else if (!isPort(one) && one.getProperties().length > 0) {
      const sample = sampleOf(one) as object;
      const fields = one.getProperties().map((property) => {
        const fieldType = checker.getTypeOfSymbol(property);
        return { name: property.name, wrong: wrongFor(fieldType) };
      });
      yield { steps, sample, fields };
      for (const property of one.getProperties())
        yield* objectsIn(checker.getTypeOfSymbol(property), [...steps, { field: property.name, of: sample }], inner);
    }
  }
}

/** Returns the types of a union. */
function alternatives(type: TypeScript.Type): TypeScript.Type[] {
  if (type.isUnion()) return type.types.flatMap(alternatives);
  if (!type.isTypeParameter()) return [type];
  const base = checker.getBaseConstraintOfType(type);
  return base && base !== type ? alternatives(base) : [type];
}

const fileOf = (symbol: TypeScript.Symbol | undefined): string =>
  symbol?.declarations?.[0]?.getSourceFile().fileName ?? "";

const isCallable = (type: TypeScript.Type): boolean => type.getCallSignatures().length > 0;

const isObject = (type: TypeScript.Type): boolean =>
  (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0 && !isCallable(type);

const methodsIn = (type: TypeScript.Type): TypeScript.Symbol[] =>
  type
    .getProperties()
    .filter((one) => !(one.flags & ts.SymbolFlags.Optional) && isCallable(checker.getTypeOfSymbol(one)));

/** True for an object that a host implements, such as a store: it has methods, and may have further fields. */
const isPort = (type: TypeScript.Type): boolean =>
  OPEN.has(type.symbol?.name ?? "") ||
  (methodsIn(type).length > 0 && !type.symbol?.name.endsWith("Options")) ||
  type.getProperties().every((one) => alternatives(checker.getTypeOfSymbol(one)).some(isCallable));

function sampleOf(type: TypeScript.Type): unknown {
  const [one = type] = alternatives(type).filter(({ flags }) => !(flags & ts.TypeFlags.Undefined));
  if (one.isStringLiteral() || one.isNumberLiteral()) return one.value;
  if (one.flags & ts.TypeFlags.NumberLike) return 1;
  if (one.flags & ts.TypeFlags.StringLike) return "x";
  if (one.flags & ts.TypeFlags.BooleanLike) return true;
  if (!isObject(one)) return () => {};
  if (checker.isTupleType(one))
    return checker
      .getTypeArguments(one as TypeScript.TypeReference)
      .slice(0, 1)
      .map(sampleOf);
  if (checker.isArrayType(one)) return [];
  const required = one.getProperties().filter(({ flags }) => !(flags & ts.SymbolFlags.Optional));
  return Object.fromEntries(required.map((field) => [field.name, sampleOf(checker.getTypeOfSymbol(field))]));
}

/** Returns values of all kinds that are not in a type. */
function wrongFor(type: TypeScript.Type): readonly unknown[] {
  const all = alternatives(type);
  const anything = ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.TypeParameter;
  if (all.some(({ flags }) => flags & anything)) return [];
  const has = (flags: TypeScript.TypeFlags): boolean => all.some((one) => (one.flags & flags) !== 0);
  const objects = all.filter(isObject);
  const lists = objects.filter((one) => checker.isArrayLikeType(one));
  const entries = lists.flatMap((one) => checker.getTypeArguments(one as TypeScript.TypeReference));
  const takesNull = entries.some((entry) => alternatives(entry).some(({ flags }) => flags & ts.TypeFlags.Null));
  const isOpen = objects.some((one) => !lists.includes(one) && methodsIn(one).length === 0);
  return [
    ...(has(ts.TypeFlags.Null) ? [] : [null]),
    ...(has(ts.TypeFlags.BooleanLike) ? [] : [true]),
    ...(has(ts.TypeFlags.NumberLike) ? [] : [7]),
    ...(has(ts.TypeFlags.String) ? [] : ["none of them"]),
    ...(lists.length === 0 ? [[]] : takesNull ? [] : [[null]]),
    ...(isOpen ? [] : [{}]),
    ...(all.some(isCallable) ? [] : [() => {}]),
  ];
}
