/** Finds the texts that an expression of the code can have, through constants, helper functions and the calls of a function. */

import * as ts from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";
import { type Checker, type Symbol, SymbolFlags } from "typescript/unstable/sync";

/** A part of a text: characters, or the parameter of a function that stands there. */
type Part = string | ts.ParameterDeclaration;
type Text = readonly Part[];

/** A text, and the file of the expression that says it. */
export interface Found {
  readonly text: string;
  /** The texts of the other argument. */
  readonly beside: readonly string[];
  readonly site: ts.Expression;
}

/** Stands for a value. */
const HOLE = "…";
/** The most texts of one expression. Beyond them, its longest part becomes a hole. */
const MOST_TEXTS = 8;
/** The fewest words of a text that a helper function or a caller puts into another one. Shorter texts are values. */
const FEWEST_WORDS = 3;
/** The most calls that a parameter is followed through. */
const MOST_CALLS = 6;

export type Call = ts.CallExpression | ts.NewExpression;

export class Texts {
  /** The rows of tables that give a text to each expression. */
  readonly rows: ts.ArrayLiteralExpression[] = [];
  /** The problems that a check tells. */
  readonly problems: ts.Expression[] = [];
  readonly #checker: Checker;
  readonly #calls = new Map<string, Call[]>();
  readonly #symbols = new Map<ts.Node, Symbol | undefined>();
  /** The functions whose results are being found. */
  readonly #open = new Set<ts.Node>();

  constructor(checker: Checker, files: readonly ts.SourceFile[]) {
    this.#checker = checker;
    const visit = (node: ts.Node): void => {
      if (is.isCallExpression(node) || is.isNewExpression(node)) {
        const name = nameOf(node.expression)?.text ?? "";
        this.#calls.set(name, [...(this.#calls.get(name) ?? []), node]);
      }
      if (is.isArrayLiteralExpression(node) && node.elements.some(is.isRegularExpressionLiteral)) this.rows.push(node);
      if (
        (is.isPropertyAssignment(node) || is.isShorthandPropertyAssignment(node)) &&
        nameOf(node.name)?.text === "problem"
      )
        this.problems.push(is.isPropertyAssignment(node) ? node.initializer : (node.name as ts.Identifier));
      node.forEachChild(visit);
    };
    for (const file of files) visit(file);
  }

  /** All calls of the code, by the names of what is called. */
  get calls(): ReadonlyMap<string, readonly Call[]> {
    return this.#calls;
  }

  /**
   * Returns all texts of an expression. A text that is a parameter, or has the text of one, is found at the calls of its function.
   *
   * @param beside Another argument, whose texts are found at the same calls.
   */
  find(site: ts.Expression, beside?: ts.Expression): readonly Found[] {
    const texts = this.#of(site);
    const others = beside ? this.#of(beside) : [];
    // Both are chosen by one condition.
    if (texts.length === others.length && texts.length > 1)
      return texts.flatMap((text, index) => this.#through([text], others.slice(index, index + 1), site, MOST_CALLS));
    return this.#through(texts, others, site, MOST_CALLS);
  }

  #through(texts: readonly Text[], beside: readonly Text[], site: ts.Expression, depth: number): Found[] {
    return texts.flatMap((text) => {
      const at = text.findIndex((part, index) => typeof part !== "string" && !isSubject(text, index));
      const parameter = text[at];
      const calls = typeof parameter === "object" && depth > 0 ? this.#callsTo(parameter.parent) : [];
      if (typeof parameter !== "object" || calls.length === 0)
        return [{ text: plain(text), beside: beside.map(plain), site }];
      return calls.flatMap((call) => {
        const owner = parameter.parent;
        const filled = this.#filled([text], call, owner, telling);
        const others = this.#filled(beside, call, owner, (given) => given);
        const isTold = filled.some((one) => wordsIn(one) > wordsIn(text));
        return this.#through(filled, others, isTold ? call : site, depth - 1);
      });
    });
  }

  /** Returns the calls of a function, a method or a class. */
  #callsTo(owner: ts.Node): readonly Call[] {
    const holder = is.isConstructorDeclaration(owner) ? owner.parent : owner;
    const named = is.isArrowFunction(holder) || is.isFunctionExpression(holder) ? holder.parent : holder;
    const name = (named as { name?: ts.Node }).name;
    if (!name || !(is.isIdentifier(name) || is.isPrivateIdentifier(name))) return [];
    const symbol = this.#symbolOf(name);
    return (this.#calls.get(name.text) ?? []).filter((call) => {
      const callee = nameOf(call.expression);
      return callee && symbol && this.#symbolOf(callee)?.id === symbol.id;
    });
  }

  /** Puts the arguments of a call in place of the parameters of its function, as far as they are to be told. */
  #filled(
    texts: readonly Text[],
    call: Call,
    owner: ts.Node,
    told: (given: readonly Text[]) => readonly Text[],
  ): Text[] {
    return texts.flatMap((text) =>
      product(
        text.map((part, index): readonly Text[] => {
          if (typeof part === "string" || part.parent !== owner) return [[part]];
          if (isSubject(text, index)) return [[HOLE]];
          const at = (part.parent as ts.FunctionLikeDeclaration).parameters.indexOf(part);
          const argument = call.arguments?.[at] ?? part.initializer;
          const given = argument && !is.isSpreadElement(argument) ? this.#of(argument) : [];
          return text.length === 1 && given.length > 0 ? given : told(given);
        }),
      ),
    );
  }

  #of(node: ts.Node): Text[] {
    if (is.isStringLiteral(node) || is.isNoSubstitutionTemplateLiteral(node)) return [[node.text]];
    if (is.isNumericLiteral(node)) return [[Number(node.text).toLocaleString("en-US")]];
    if (is.isParenthesizedExpression(node) || is.isAsExpression(node) || is.isSatisfiesExpression(node))
      return this.#of(node.expression);
    if (is.isNonNullExpression(node) || is.isAwaitExpression(node)) return this.#of(node.expression);
    if (is.isTemplateExpression(node))
      return product([
        [[node.head.text]],
        ...node.templateSpans.flatMap(({ expression, literal }) => [this.#part(expression), [[literal.text]]]),
      ]);
    if (is.isConditionalExpression(node)) return bounded([...this.#of(node.whenTrue), ...this.#of(node.whenFalse)]);
    if (is.isBinaryExpression(node)) {
      const kind = node.operatorToken.kind;
      if (kind === ts.SyntaxKind.PlusToken && !is.isNumericLiteral(node.right))
        return product([this.#part(node.left), this.#part(node.right)]);
      if (kind === ts.SyntaxKind.BarBarToken || kind === ts.SyntaxKind.QuestionQuestionToken)
        return bounded([...this.#of(node.left), ...this.#of(node.right)]);
      return [[HOLE]];
    }
    if (is.isCallExpression(node)) return this.#ofCall(node);
    if (is.isIdentifier(node) && node.text === "undefined") return [];
    if (is.isIdentifier(node) || is.isPropertyAccessExpression(node)) return this.#ofName(node);
    if (is.isElementAccessExpression(node)) return this.#ofMembers(node);
    return [[HOLE]];
  }

  /** Returns the texts of a part of a text: the words that are written there, or a hole for a value. */
  #part(node: ts.Expression): Text[] {
    const texts = this.#of(node);
    const isWritten =
      !is.isCallExpression(node) && texts.every((text) => !hasParameter(text) && !plain(text).includes(HOLE));
    return isWritten && texts.length > 0 && texts.length < 5 ? texts : telling(texts);
  }

  #ofName(node: ts.Identifier | ts.PropertyAccessExpression): Text[] {
    const name = nameOf(node);
    const declared = name && this.#declarationOf(name);
    if (declared && is.isParameterDeclaration(declared) && is.isIdentifier(declared.name)) return [[declared]];
    if (declared && is.isVariableDeclaration(declared) && declared.initializer && isConstant(declared)) {
      // A number is told if it is a bound, and not if it is where something begins.
      return is.isNumericLiteral(declared.initializer) && !/^[A-Z]/.test(name?.text ?? "")
        ? [[HOLE]]
        : this.#of(declared.initializer);
    }
    if (declared && is.isPropertyAssignment(declared)) return this.#of(declared.initializer);
    if (declared && is.isBindingElement(declared) && is.isArrayBindingPattern(declared.parent)) {
      const holder = declared.parent.parent;
      const at = declared.parent.elements.indexOf(declared);
      if (is.isVariableDeclaration(holder) && holder.initializer) return this.#ofTuples(holder.initializer, at, node);
    }
    return this.#ofType(node);
  }

  /** Returns the texts at an index of the lists that an expression can have. */
  #ofTuples(value: ts.Expression, at: number, node: ts.Expression): Text[] {
    const texts = this.#lists(value).flatMap(({ elements: { [at]: one } }) => (one ? this.#of(one) : []));
    return texts.length > 0 ? texts : this.#ofType(node);
  }

  /** Returns the lists that are written for an expression. */
  #lists(node: ts.Expression): ts.ArrayLiteralExpression[] {
    if (is.isArrayLiteralExpression(node)) return [node];
    if (is.isParenthesizedExpression(node) || is.isAsExpression(node)) return this.#lists(node.expression);
    if (is.isConditionalExpression(node)) return [...this.#lists(node.whenTrue), ...this.#lists(node.whenFalse)];
    if (is.isElementAccessExpression(node)) return this.#membersOf(node).flatMap((one) => this.#lists(one));
    const declared = is.isIdentifier(node) ? this.#declarationOf(node) : undefined;
    return declared && is.isVariableDeclaration(declared) && declared.initializer && isConstant(declared)
      ? this.#lists(declared.initializer)
      : [];
  }

  /** Returns the texts of a member of a list, or of all members of an object. */
  #ofMembers(node: ts.ElementAccessExpression): Text[] {
    if (is.isNumericLiteral(node.argumentExpression))
      return this.#ofTuples(node.expression, Number(node.argumentExpression.text), node);
    const members = this.#membersOf(node);
    return members.length > 0 ? members.flatMap((one) => this.#of(one)) : this.#ofType(node);
  }

  /** Returns the values of the object that a key is looked up in. */
  #membersOf(node: ts.ElementAccessExpression): ts.Expression[] {
    const name = nameOf(node.expression);
    const declared = name && this.#declarationOf(name);
    let value = declared && is.isVariableDeclaration(declared) ? declared.initializer : undefined;
    while (value && (is.isAsExpression(value) || is.isSatisfiesExpression(value))) value = value.expression;
    if (!value || !is.isObjectLiteralExpression(value)) return [];
    return value.properties.flatMap((one) => (is.isPropertyAssignment(one) ? one.initializer : []));
  }

  /** Returns the texts of a type such as `"a" | "b"`. */
  #ofType(node: ts.Expression): Text[] {
    const type = this.#checker.getTypeAtLocation(node);
    const types = type?.isUnionType() ? (type.getTypes() ?? []) : type ? [type] : [];
    const texts = types.flatMap((one) => (one.isStringLiteralType() ? [[one.value]] : []));
    return texts.length === types.length && texts.length > 0 ? texts : [[HOLE]];
  }

  /** Returns the texts that a function of the code returns for the arguments of a call. */
  #ofCall(node: ts.CallExpression): Text[] {
    const name = nameOf(node.expression);
    if (is.isPropertyAccessExpression(node.expression) && name?.text.startsWith("trim"))
      return this.#of(node.expression.expression);
    const declared = name && this.#declarationOf(name);
    const made = declared && is.isVariableDeclaration(declared) ? declared.initializer : declared;
    if (!made || !is.isFunctionLikeDeclaration(made) || this.#open.has(made)) return [[HOLE]];
    const { body } = made;
    if (!body) return [[HOLE]];
    this.#open.add(made);
    const texts = returnsOf(body).flatMap((one) => this.#of(one));
    this.#open.delete(made);
    return texts.length > MOST_TEXTS ? [[HOLE]] : this.#filled(texts, node, made, telling);
  }

  #declarationOf(name: ts.Node): ts.Node | undefined {
    if (is.isShorthandPropertyAssignment(name.parent))
      return this.#checker.getShorthandAssignmentValueSymbol(name.parent)?.valueDeclaration?.resolve();
    return this.#symbolOf(name)?.valueDeclaration?.resolve();
  }

  #symbolOf(name: ts.Node): Symbol | undefined {
    if (this.#symbols.has(name)) return this.#symbols.get(name);
    const symbol = this.#checker.getSymbolAtLocation(name);
    const meant = symbol && symbol.flags & SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
    this.#symbols.set(name, meant);
    return meant;
  }
}

/** Returns the name at the end of an expression such as `call.failures.told`. */
export function nameOf(node: ts.Node): ts.Identifier | ts.PrivateIdentifier | undefined {
  if (is.isIdentifier(node)) return node;
  return is.isPropertyAccessExpression(node) ? node.name : undefined;
}

const isConstant = (node: ts.VariableDeclaration): boolean => (node.parent.flags & ts.NodeFlags.Const) !== 0;

/** Returns what a function returns, without the functions in it. */
function returnsOf(body: ts.Node): ts.Expression[] {
  if (!is.isBlock(body)) return [body as ts.Expression];
  const found: ts.Expression[] = [];
  const visit = (node: ts.Node): void => {
    if (is.isReturnStatement(node) && node.expression) found.push(node.expression);
    if (!is.isFunctionLikeDeclaration(node)) node.forEachChild(visit);
  };
  body.forEachChild(visit);
  return found;
}

const hasParameter = (text: Text): boolean => text.some((part) => typeof part !== "string");

/** Tells whether a part is the subject of its text, such as the path of an option before `: must be an object`. */
const isSubject = ([, next]: Text, index: number): boolean =>
  index === 0 && next !== undefined && !(typeof next === "string" && /^ \p{Lu}/u.test(next));

const wordsIn = (text: Text): number => plain(text).match(/\p{L}{2,}/gu)?.length ?? 0;

const plain = (text: Text): string => text.map((part) => (typeof part === "string" ? part : HOLE)).join("");

/** Returns the texts that say something beside values; a hole if all or some are values. */
function telling(texts: readonly Text[]): Text[] {
  const said = texts.filter((text) => plain(text) !== "");
  const isTelling = said.length > 0 && said.every((text) => isParameter(text) || wordsIn(text) >= FEWEST_WORDS);
  return isTelling ? [...texts] : [[HOLE]];
}

const isParameter = (text: Text): boolean => text.length === 1 && hasParameter(text);

const bounded = (texts: Text[]): Text[] => (texts.length > MOST_TEXTS ? [[HOLE]] : texts);

/** Returns each text that takes a text of each part. */
function product(parts: readonly (readonly Text[])[]): Text[] {
  const count = parts.reduce((total, { length }) => total * length, 1);
  const most = Math.max(...parts.map(({ length }) => length));
  const kept = count > MOST_TEXTS ? parts.map((part) => (part.length === most ? [[HOLE]] : part)) : parts;
  if (count > MOST_TEXTS && most > 1) return product(kept);
  return kept.reduce<Text[]>(
    (texts, part) => texts.flatMap((text) => part.map((one) => [...text, ...one.filter((piece) => piece !== "")])),
    [[]],
  );
}
