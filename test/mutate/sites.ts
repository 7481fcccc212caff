/** Finds the blocks and the mutants of a source file in its syntax tree. */

import { parseAst } from "vitest/node";

/** A function body, a branch or a loop body, by the positions of its first and last character. Block 0 is the module. */
export interface Block {
  readonly start: number;
  readonly end: number;
  /** An expression needs another call to note that it runs. */
  readonly isExpression: boolean;
}

/** One small fault: the text between two positions is replaced. */
export interface Mutant {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const OPERATORS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "&&": "||",
  "||": "&&",
  "+=": "-=",
  "-=": "+=",
};

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && "start" in value;

/** Skips types, which change nothing at run time, and imports. */
const isSkipped = ({ type, ...node }: Node): boolean =>
  /^(?:Import|ExportAll|TS(?!AsExpression|SatisfiesExpression|NonNullExpression))/.test(type) ||
  node["declare"] === true;

export function read(source: string): { blocks: readonly Block[]; mutants: readonly Mutant[] } {
  const blocks: Block[] = [{ start: 0, end: source.length, isExpression: false }];
  const mutants: Mutant[] = [];
  const codeOf = ({ start, end }: Node): string => source.slice(start, end);
  const replace = ({ start, end }: Node, text: string): void => void mutants.push({ start, end, text });
  const block = (node: unknown): void => {
    if (!isNode(node)) return;
    const isExpression = node.type !== "BlockStatement";
    blocks.push({ start: node.start, end: node.end, isExpression });
  };
  const negate = (test: unknown): void => {
    if (isNode(test)) replace(test, `!(${codeOf(test)})`);
  };

  const visit = (node: Node): void => {
    if (isSkipped(node)) return;
    const { type, operator, left, right, test, argument } = node;
    switch (type) {
      case "ArrowFunctionExpression":
        if (node["expression"]) block(node["body"]);
        break;
      case "BlockStatement":
        block(node);
        break;
      case "ConditionalExpression":
        block(node["consequent"]);
        block(node["alternate"]);
        negate(test);
        break;
      case "IfStatement":
      case "WhileStatement":
        negate(test);
        break;
      case "BinaryExpression":
      case "LogicalExpression":
      case "AssignmentExpression": {
        const other = OPERATORS[String(operator)];
        const isText = [left, right].some((side) => isNode(side) && /^(?:"|'|`)/.test(codeOf(side)));
        if (type === "LogicalExpression") block(right);
        if (operator === "??" && isNode(left)) replace(node, codeOf(left));
        if (other === undefined || !isNode(left) || !isNode(right) || (isText && operator === "+")) break;
        const at = source.indexOf(String(operator), left.end);
        mutants.push({ start: at, end: at + String(operator).length, text: other });
        break;
      }
      case "UnaryExpression":
        if (operator === "!" && isNode(argument)) replace(node, codeOf(argument));
        break;
      case "Literal": {
        const { value } = node;
        if (typeof value === "boolean") replace(node, String(!value));
        if (typeof value === "number") replace(node, value === 0 ? "1" : value === 1 ? "0" : `(2 * ${codeOf(node)})`);
        break;
      }
      case "ReturnStatement":
        if (isNode(argument) && codeOf(argument) !== "undefined") replace(argument, "undefined");
        break;
      case "ExpressionStatement":
      case "ThrowStatement":
      case "BreakStatement":
      case "ContinueStatement":
        // A constructor without `super()` does not run at all.
        if (!/^(?:super\(|")/.test(codeOf(node))) replace(node, ";");
        break;
    }
    for (const [name, child] of Object.entries(node)) {
      // A key that is a number is no constant.
      if (name === "key" && !node["computed"]) continue;
      for (const one of Array.isArray(child) ? child : [child]) if (isNode(one)) visit(one);
    }
  };
  visit(parseAst(source, { lang: "ts" }) as unknown as Node);
  return { blocks, mutants };
}

/** Returns the source with a call of `__runs(file, block)` at the start of each block. Lines keep their numbers. */
export function instrumented(source: string, file: number): string {
  const inserted: [at: number, text: string][] = [];
  for (const [index, { start, end, isExpression }] of read(source).blocks.entries()) {
    if (index === 0) continue;
    const call = `globalThis.__runs?.(${file},${index})`;
    if (isExpression) inserted.push([start, `(${call},`], [end, ")"]);
    else inserted.push([start + 1, `${call};`]);
  }
  return inserted
    .map(([at, text], order) => ({ at, text, order }))
    .toSorted(
      (one, other) =>
        other.at - one.at || (one.text === ")" ? 1 : 0) - (other.text === ")" ? 1 : 0) || other.order - one.order,
    )
    .reduce((text, one) => text.slice(0, one.at) + one.text + text.slice(one.at), source);
}
