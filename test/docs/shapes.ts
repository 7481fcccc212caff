/** Writes types and signatures as the reference shows them: each field and each function in a line, and the members of a union. */

import { createRequire } from "node:module";
import type * as TypeScript from "../../node_modules/@arethetypeswrong/core/node_modules/typescript/lib/typescript.d.ts";

// The project's own compiler has no JavaScript API. Use the TypeScript of another tool.
const ts = createRequire(import.meta.resolve("@arethetypeswrong/core"))("typescript") as typeof TypeScript;

/** The most characters of a field with its type. A longer type is left out, or shortened. */
const MOST_CHARS = 110;

/** The most characters of a signature. A longer one is shortened. */
const MOST_SIGNATURE_CHARS = 220;

/** TypeScript's checker, with a function that its declarations leave out. */
export interface Checker extends TypeScript.TypeChecker {
  resolveName(name: string, place: TypeScript.Node, kind: number, isInModules: boolean): TypeScript.Symbol | undefined;
}

/** The shape of a public name. */
export interface Shape {
  /** The source file. */
  readonly file: string;
  /** The lines of code for a value: each form of a function or a constructor, or a constant with its type. None for a type. */
  readonly signatures: readonly string[];
  /** The lines of code for the fields, by their names: `connections?: number`. */
  readonly fields: ReadonlyMap<string, string>;
  /** The type behind the name of an alias, when it is short, or the function that the type is. */
  readonly alias: string | undefined;
  /** The members of an alias that is a union of objects or of many words. */
  readonly members: readonly Member[];
  /** Returns a type of the sources by its name in the lines of code, when no entry exports it. */
  readonly local: (name: string) => Local | undefined;
}

/** A type that no entry exports. */
export interface Local {
  readonly comment: string;
  /** The type behind an alias, or the fields; undefined for a long type. */
  readonly code: string | undefined;
}

/** A member of a union. */
export interface Member {
  /** The words that tell the member from others, or its type. */
  readonly names: readonly string[];
  readonly fields: readonly { readonly code: string; readonly comment: string }[];
  readonly comment: string;
  /** True for fields that all members have. */
  readonly isShared?: boolean;
}

/** Returns a function for the shapes of the names that an entry exports. `isDescribed` tells which types have an entry of their own. */
export function shapesOf(
  checker: Checker,
  file: TypeScript.SourceFile,
  isDescribed: (name: string) => boolean,
): (name: string) => Shape {
  const module = checker.getSymbolAtLocation(file);
  const exported = new Map((module ? checker.getExportsOfModule(module) : []).map((one) => [one.name, one]));
  return (name) => {
    const found = exported.get(name);
    const symbol = found && found.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(found) : found;
    const declaration = symbol?.declarations?.[0];
    if (!symbol || !declaration) throw new Error(`No export is named ${name}.`);
    const node = ts.isTypeAliasDeclaration(declaration) ? declaration.type : undefined;
    const call =
      node && ts.isFunctionTypeNode(node)
        ? node
        : ts.isInterfaceDeclaration(declaration) && declaration.members.find(ts.isCallSignatureDeclaration);
    const text = node && shortened(node.getText());
    const isShort = node && text && text.length <= MOST_CHARS && !isComputed(node) && !TYPED.test(text);
    const properties = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
    return {
      file: declaration.getSourceFile().fileName,
      signatures: signaturesOf(name, symbol.declarations ?? []),
      fields: new Map(properties.map((property) => [property.name, codeOf(property, checker)])),
      alias: call ? shortEnough(formsOf(call, " => ")) : isShort ? text : undefined,
      members: node && !isShort && !call ? membersOf(node, "") : [],
      local: (other) => localOf(other, [declaration, ...properties.flatMap(({ declarations = [] }) => declarations)]),
    };
  };

  /** Returns a type of the sources by a name that one of the places has in its scope. */
  function localOf(name: string, places: readonly TypeScript.Node[]): Local | undefined {
    const find = (place: TypeScript.Node) => checker.resolveName(name, place, ts.SymbolFlags.Type, false);
    const [found] = places.flatMap((place) => find(place) ?? []);
    const symbol = found && found.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(found) : found;
    const declaration = symbol?.declarations?.find(
      (one) => ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one),
    );
    if (!symbol || !declaration || declaration.getSourceFile().fileName.includes("/node_modules/")) return undefined;
    const fields = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
    const codes = fields.map((field) => codeOf(field, checker));
    const code = ts.isTypeAliasDeclaration(declaration) ? shortened(declaration.type.getText()) : codes.join("; ");
    return { comment: documentationOf(symbol), code: shortEnough(code === "" ? [] : [code]) };
  }

  function membersOf(node: TypeScript.TypeNode, comment: string): Member[] {
    if (ts.isParenthesizedTypeNode(node)) return membersOf(node.type, comment);
    if (ts.isUnionTypeNode(node)) return node.types.flatMap((one) => membersOf(one, commentBefore(one)));
    if (ts.isIntersectionTypeNode(node)) {
      const union = node.types.find((one) => ts.isParenthesizedTypeNode(one) && ts.isUnionTypeNode(one.type));
      const rest = node.types.filter((one) => one !== union);
      const shared = rest.flatMap((one) => checker.getPropertiesOfType(checker.getTypeFromTypeNode(one)));
      if (union && !shared.some(({ name }) => name === "type"))
        return [memberOf(shared, "", { isShared: true }), ...membersOf(union, comment)];
    }
    const type = checker.getTypeFromTypeNode(node);
    if (ts.isTypeReferenceNode(node)) {
      const name = node.typeName.getText();
      if (isDescribed(name)) return [{ names: [name], fields: [], comment }];
      const symbol = checker.getSymbolAtLocation(node.typeName);
      const target = symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const alias = target?.declarations?.find(ts.isTypeAliasDeclaration);
      if (alias && !node.typeArguments && !ts.isIntersectionTypeNode(alias.type)) return membersOf(alias.type, comment);
      if (target && !node.typeArguments)
        return [memberOf(checker.getPropertiesOfType(type), comment || documentationOf(target))];
    }
    if (ts.isLiteralTypeNode(node)) return [{ names: [shortened(node.getText())], fields: [], comment }];
    // A text, a list or a function has no fields of its own.
    const properties = checker.getPropertiesOfType(type);
    if (!type.isUnion() && (properties.length === 0 || properties.some(isOfLibrary)))
      return [{ names: [shortened(node.getText())], fields: [], comment }];
    return type.isUnion() && !ts.isIntersectionTypeNode(node) ? membersOfType(type) : [memberOf(properties, comment)];
  }

  /** Returns the members of a computed union. Described unions, of which all members are in it, stand for their members. */
  function membersOfType(union: TypeScript.UnionType): Member[] {
    const rest = new Set(union.types);
    const whole = [...exported.values()].flatMap((symbol) => {
      if (!isDescribed(symbol.name)) return [];
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const type = checker.getDeclaredTypeOfSymbol(target);
      const types = type.isUnion() ? type.types : [type];
      if (type === union || !types.every((one) => rest.has(one))) return [];
      for (const one of types) rest.delete(one);
      return [{ names: [symbol.name], fields: [], comment: "" }];
    });
    return [
      ...whole,
      ...Array.from(rest, (type) => {
        if (type.isStringLiteral()) return { names: [`"${type.value}"`], fields: [], comment: "" };
        const properties = checker.getPropertiesOfType(type);
        let node = properties.find(({ name }) => name === "type")?.declarations?.[0]?.parent;
        while (node && !ts.isUnionTypeNode(node.parent) && !ts.isStatement(node)) node = node.parent;
        return memberOf(properties, node && !ts.isStatement(node) ? commentBefore(node) : "");
      }),
    ];
  }

  function memberOf(
    properties: readonly TypeScript.Symbol[],
    comment: string,
    shared: Pick<Member, "isShared"> = {},
  ): Member {
    const types = properties.find(({ name }) => name === "type");
    // Of a type with parameters, the kind tells the members apart.
    const kinds = types ? undefined : properties.find(isGeneric);
    const kind = kinds && checker.getTypeOfSymbol(kinds);
    if (kinds && kind?.isStringLiteral()) {
      const own = properties.filter((property) => property !== kinds);
      return {
        names: [kind.value],
        fields: own.map((property) => ({
          code: isGeneric(property)
            ? `${property.name}: ${checker.typeToString(checker.getTypeOfSymbol(property))}`
            : codeOf(property, checker),
          comment: documentationOf(property),
        })),
        comment,
      };
    }
    const declared = (types && typeOf(types)?.getText()) ?? "";
    return {
      names: Array.from(declared.matchAll(/"([^"]*)"/g), ([, word = ""]) => word),
      fields: properties
        .filter((property) => property !== types && !isNever(typeOf(property)))
        .map((property) => ({
          code: codeOf(property, checker),
          comment: documentationOf(property),
        })),
      comment,
      ...shared,
    };
  }

  /** Tells whether a property has the type of a parameter. */
  function isGeneric(property: TypeScript.Symbol): boolean {
    const type = typeOf(property);
    return type !== undefined && (checker.getTypeFromTypeNode(type).flags & ts.TypeFlags.TypeParameter) !== 0;
  }

  function documentationOf(symbol: TypeScript.Symbol): string {
    return ts.displayPartsToString(symbol.getDocumentationComment(checker)).replaceAll(/\s+/g, " ").trim();
  }
}

/** An object with a field `type`, which tells the members of a union apart. */
const TYPED = /\{ type: /;

/** Tells whether a type is made from others, such as by `Exclude`. */
const isComputed = (node: TypeScript.TypeNode): boolean =>
  ts.isIndexedAccessTypeNode(node) ||
  ts.isTypeOperatorNode(node) ||
  ts.isMappedTypeNode(node) ||
  (ts.isTypeReferenceNode(node) && /\bkeyof [A-Z]/.test(node.getText())) ||
  (ts.isTypeReferenceNode(node) && /^(?:Exclude|Extract)$/.test(node.typeName.getText()));

/** Tells whether a property is one of TypeScript's library, such as the length of a list. */
const isOfLibrary = ({ declarations = [] }: TypeScript.Symbol): boolean =>
  declarations.some((one) => /\/lib\.[\w.]+\.d\.ts$/.test(one.getSourceFile().fileName));

const isNever = (type: TypeScript.TypeNode | undefined): boolean => type?.kind === ts.SyntaxKind.NeverKeyword;

/** Returns a property's type, from the first declaration that allows the property at all. */
function typeOf(property: TypeScript.Symbol): TypeScript.TypeNode | undefined {
  const types = (property.declarations ?? []).flatMap((one) =>
    ts.isPropertySignature(one) || ts.isPropertyDeclaration(one) ? (one.type ?? []) : [],
  );
  return types.find((type) => !isNever(type)) ?? types[0];
}

/** Returns the text of an optional field's type. That the field may be undefined is known. */
function definedText(type: TypeScript.TypeNode): string {
  if (!ts.isUnionTypeNode(type)) return shortened(type.getText());
  const types = type.types.filter(({ kind }) => kind !== ts.SyntaxKind.UndefinedKeyword);
  const [first] = types;
  return first && types.length === 1 && ts.isParenthesizedTypeNode(first)
    ? shortened(first.type.getText())
    : types.map((one) => shortened(one.getText())).join(" | ");
}

/** Returns a field with its type in short. A long type is left out, and of a long function first the types of what it is given. */
function codeOf(property: TypeScript.Symbol, checker: TypeScript.TypeChecker): string {
  const name = `${property.name}${property.flags & ts.SymbolFlags.Optional ? "?" : ""}`;
  const declaration = property.declarations?.find(
    (one) =>
      ts.isMethodSignature(one) ||
      ts.isMethodDeclaration(one) ||
      ts.isPropertySignature(one) ||
      ts.isPropertyDeclaration(one),
  );
  // A field of a `Record` has no declaration.
  if (!declaration) {
    const type = checker.typeToString(checker.getNonNullableType(checker.getTypeOfSymbol(property)));
    return shortEnough([`${name}: ${type}`]) ?? name;
  }
  if (ts.isMethodSignature(declaration) || ts.isMethodDeclaration(declaration)) {
    const forms = formsOf(declaration, ": ").map((form) => name + form);
    return shortEnough(forms) ?? name;
  }
  const type = typeOf(property);
  if (!type) return name;
  return shortEnough([`${name}: ${name.endsWith("?") ? definedText(type) : shortened(type.getText())}`]) ?? name;
}

/** Returns the signatures of a function or a constructor, or a constant with its type. */
function signaturesOf(name: string, declarations: readonly TypeScript.Declaration[]): string[] {
  const write = (declaration: TypeScript.SignatureDeclaration, before = ""): string => {
    const forms = formsOf(declaration, ": ").map((form) => before + name + form);
    const code = shortEnough(forms, MOST_SIGNATURE_CHARS) ?? name;
    // The comment tells of the parameters of the type; their names alone say little.
    const own = new Set(declaration.typeParameters?.map((one) => one.name.text));
    return code.replaceAll(/<(\w+(?:, \w+)*)>/g, (types, names: string) =>
      names.split(", ").every((one) => own.has(one)) ? "" : types,
    );
  };
  const functions = declarations.filter(ts.isFunctionDeclaration);
  const overloads = functions.filter(({ body }) => body === undefined);
  if (functions.length > 0) return (overloads.length > 0 ? overloads : functions).map((one) => write(one));
  return declarations.flatMap((one) => {
    if (ts.isClassDeclaration(one))
      return one.members.filter(ts.isConstructorDeclaration).map((made) => write(made, "new "));
    if (!ts.isVariableDeclaration(one)) return [];
    const { type, initializer } = one;
    if (type) return ts.isFunctionTypeNode(type) ? write(type) : `${name}: ${shortened(type.getText())}`;
    if (initializer && ts.isArrowFunction(initializer)) return write(initializer);
    return shortEnough([`${name} = ${initializer?.getText()}`]) ?? `${name}${typeBehind(initializer)}`;
  });
}

/** Returns the forms of a function, the longest first: with the types of what it is given and returns, and without. */
function formsOf({ parameters: all, type }: TypeScript.SignatureDeclaration, mark: string): string[] {
  // `this: void` is no argument: it lets callers take the function out of its object.
  const parameters = all.filter((one) => nameOf(one) !== "this" || one.type?.getText() !== "void");
  const names = parameters.map(nameOf).join(", ");
  const given = parameters
    .map((one) => {
      const mark = (one.questionToken ?? one.initializer) ? "?" : "";
      const rest = one.dotDotDotToken ? "..." : "";
      const type = one.type ? `: ${shortened(one.type.getText())}` : typeBehind(one.initializer);
      return `${rest}${nameOf(one)}${mark}${type}`;
    })
    .join(", ");
  const result = type ? mark + shortened(type.getText()) : "";
  return [`(${given})${result}`, `(${names})${result}`, `(${names})`];
}

/** Returns the type of a text or a number, which needs no type of its own in the code. */
function typeBehind(value: TypeScript.Expression | undefined): string {
  if (!value) return "";
  return ts.isStringLiteralLike(value) ? ": string" : ts.isNumericLiteral(value) ? ": number" : "";
}

/** Returns the name of a parameter. One that is taken apart is an object of options. */
const nameOf = ({ name }: TypeScript.ParameterDeclaration): string => (ts.isIdentifier(name) ? name.text : "options");

const shortEnough = (codes: readonly string[], most = MOST_CHARS): string | undefined =>
  codes.find((code) => code.length <= most);

/** Returns the text of a type in a line, without `readonly`, and without the type of the host's context. */
const shortened = (text: string): string =>
  text
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")
    .replaceAll(/\breadonly /g, "")
    .replaceAll("<Context>", "")
    .replaceAll(/\bReadonly<(Record<[^<>]*>)>/g, "$1")
    .replaceAll(/\((\w+(?:\[\])+)\)\[\]/g, "$1[]")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/[;,] ([})])/g, " $1")
    .replaceAll(/([(<]) | ([)>])(?!=)/g, "$1$2")
    .replace(/^ ?\| /, "")
    .trim();

/** Returns the comment before a member of a union: it stands before the mark `|`. */
function commentBefore(node: TypeScript.Node): string {
  const before = node.getSourceFile().text.slice(0, node.getStart());
  const [, text = ""] = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*\|?\s*$/.exec(before) ?? [];
  return text.replaceAll(/\s*\n\s*\*?\s*|\s+/g, " ").trim();
}
