/** Writes the page of the reference with the messages of all errors and warnings, which it finds in the code. */

import * as ts from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";
import { API } from "typescript/unstable/sync";
import { BACKEND_ERRORS, GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import { ROOT } from "./entries.ts";
import { markedTables, namesIn } from "./pages.ts";
import { REMEDIES } from "./remedies.ts";
import { type Call, nameOf, Texts } from "./texts.ts";
import { wrapped } from "./wrapped.ts";

/** A message with a hole for each value. It has the code of an error of a call, or belongs to the part of its file. */
interface Said {
  readonly text: string;
  readonly code: string | undefined;
  readonly file: string;
}

/** The parts of the code that hosts and operators meet, by the beginning of a file's path: the first that fits. */
const AREAS: readonly (readonly [path: RegExp, name: string, about: string])[] = [
  [/^adapters\/|^src\/(?:routes|wrong-address)/, "Mounts", "See [Mounts](../mounting.md) and wrong addresses."],
  [/^src\/admin\/(?:http|page)\//, "Admin over HTTP", "See [The admin](../admin.md)."],
  [/^src\/admin\/(?:key|json)-lines/, "keys import", "See [`keys import`](../keys-and-limits.md#keys)."],
  [
    /^src\/(?:admin\/|cli|model\/(?:amount|money))/,
    "The command polygate",
    "See [Keys](../keys-and-limits.md#keys), budgets and reports.",
  ],
  [/^src\/serve\//, "polygate serve", "See [A server from one file](../production.md#a-server-from-one-file)."],
  [
    /^src\/stores\/open\//,
    "Stores by address",
    "See [`openStores`](../quota.md#all-stores-by-one-address) and `--store`.",
  ],
  [/^src\/stores\/redis\//, "Redis", "See [Redis](../quota.md#redis)."],
  [/^src\/stores\/sql\//, "SQL", "See [SQL](../quota.md#sql-postgresql-mysql-sqlite)."],
  [/^src\/stores\/rate-limits/, "Rate limits", "See [Rate limits](../keys-and-limits.md#rate-limits)."],
  [
    /^src\/(?:stores|ports|encryption|model\/refused)/,
    "Stores, keys and budgets",
    "See [Stores](../quota.md), keys and [budgets](../budgets.md).",
  ],
  [/^src\/upstreams\/relay\//, "Relays", "See [Relays](../backends.md#relays)."],
  [/^src\/upstreams\/route\//, "Routes", "See [Routes](../routes.md)."],
  [/^src\/upstreams\/affinity\//, "Affinity", "See [Affinity](../routes.md#affinity-prompt-caching)."],
  [/^src\/upstreams\/ai-sdk\//, "aiSdk", "See [Providers of the AI SDK](../backends.md)."],
  [/^src\/clouds\//, "Clouds", "See [AWS, Azure and Google Cloud](../credentials.md)."],
  [/^src\/prices\//, "Prices", "See [Prices](../prices.md)."],
  [/^src\/redactor\//, "Redactor", "See [The redactor](../hooks.md#the-redactor-mask-personal-data)."],
  [/^src\/(?:hooks|pipeline\/(?:hooks|during))/, "Hooks", "See [Hooks](../hooks.md)."],
  [/^src\/telemetry\//, "Telemetry", "See [Telemetry](../telemetry.md)."],
  [/^src\/testing\//, "Tests", "See [Testing](../testing.md)."],
  [/^src\/media\//, "Pictures", "These are parts of `The file is not a valid PNG: …`."],
  [/^src\/(?:kinds|upstreams\/backend)/, "Your own backend", "See [A backend of your own](../extending.md)."],
  [
    /^src\//,
    "The gateway",
    "See the [options](../options.md) of `createGateway`, and what [`onFailure`](../options.md#failures) tells.",
  ],
];

/** Files whose errors nobody reads: they are caught, or show a fault of polygate itself. */
const INTERNAL =
  /^src\/(?:demo|admin\/page\/app|openapi|testing\/laws|media\/extent|http\/(?:known-bodies|shared-stream))/;

/** The argument with the message, where it is not the first. */
const MESSAGE_AT: Readonly<Record<string, number>> = {
  GatewayError: 1,
  AdminRefusal: 1,
  RefusedChange: 1,
  AggregateError: 1,
};

/** The errors of a file of a picture: the caller is told that it is broken. */
const CAUGHT = /^src\/media\/picture/;

const ERROR = /(?:Error|Mistake|Rest|Fault|Timeout|Refused|AdminRefusal|RefusedChange|BrokenJson|BeyondLimit)$/;
/** What writes a line to the log or the terminal. */
const LINE = /^(?:error|warn|emitWarning|printError)$/;

/** Returns the messages of all errors and warnings of the code, with each file that says them. */
function saidIn(texts: Texts): Said[] {
  const said: Said[] = [];
  const add = (message: ts.Expression | undefined, code?: ts.Expression): void => {
    if (!message) return;
    for (const { text, beside, site } of texts.find(message, code)) {
      const file = site.getSourceFile().fileName.slice(ROOT.length);
      const codes = code ? beside.filter((one) => GATEWAY_ERROR_CODES.some((known) => known === one)) : [undefined];
      if (codes[0] === undefined && CAUGHT.test(file)) continue;
      // A helper that takes any code is no error of a call of its own.
      for (const one of codes.length > 3 || file.startsWith("src/testing/") ? [undefined] : codes)
        said.push({ text, code: one, file });
    }
  };
  for (const [name, calls] of texts.calls) {
    for (const call of calls) {
      const at = MESSAGE_AT[name] ?? 0;
      if (is.isNewExpression(call) ? ERROR.test(name) : isLine(call, name))
        add(call.arguments?.[at], name === "GatewayError" ? call.arguments?.[0] : undefined);
      else if (isSuper(call)) call.arguments?.filter(isText).forEach((argument) => add(argument));
      else if (isOfSchema(call)) call.arguments?.forEach(addField);
    }
  }
  for (const row of texts.rows) for (const one of row.elements) if (is.isStringLiteral(one)) add(one);
  for (const one of texts.problems) add(one);
  return said;

  function addField(argument: ts.Expression): void {
    if (!isText(argument) && !is.isIdentifier(argument)) return;
    for (const { text, site } of texts.find(argument))
      if (/^(?:must|is|are|needs|has|have|names?|may|cannot) .* /.test(text))
        said.push({ text, code: "invalid_request", file: site.getSourceFile().fileName.slice(ROOT.length) });
  }
}

const isText = (node: ts.Node): boolean =>
  is.isStringLiteral(node) ||
  is.isNoSubstitutionTemplateLiteral(node) ||
  is.isTemplateExpression(node) ||
  is.isConditionalExpression(node);

/** Tells whether a call writes a line to the log or the terminal. */
function isLine({ expression }: Call, name: string): boolean {
  if (!LINE.test(name)) return false;
  return (
    name !== "error" || (is.isPropertyAccessExpression(expression) && nameOf(expression.expression)?.text === "console")
  );
}

/** Tells whether a call is that of a class to the class which it extends: most such classes are errors with a message of their own. */
const isSuper = ({ expression }: Call): boolean => expression.kind === ts.SyntaxKind.SuperKeyword;

/** Tells whether a call makes a part of a schema, whose message tells the fault of a field. */
const isOfSchema = ({ expression }: Call): boolean =>
  is.isPropertyAccessExpression(expression) && nameOf(expression.expression)?.text === "v";

/** Returns all messages, without those that are hardly more than values. */
function messages(): readonly Said[] {
  const api = new API({ cwd: ROOT });
  try {
    const [project] = api.updateSnapshot({ openProject: `${ROOT}test/docs/typedoc.tsconfig.json` }).getProjects();
    if (!project) throw new Error("The compiler has no project.");
    const { program, checker } = project;
    const files = program
      .getSourceFileNames()
      .filter((path) => path.startsWith(`${ROOT}src/`) || path.startsWith(`${ROOT}adapters/`))
      .filter((path) => !INTERNAL.test(path.slice(ROOT.length)))
      .flatMap((path) => program.getSourceFile(path) ?? []);
    const own = Object.values(BACKEND_ERRORS).map(([code, text]) => ({ text, code, file: "src/errors.ts" }));
    const all = [...saidIn(new Texts(checker, files)), ...own].map((one) => ({ ...one, text: shortened(one.text) }));
    // Helpers that take an error of any code say the same again.
    const ofCalls = new Set(all.flatMap(({ code, text }) => (code === undefined ? [] : text)));
    return all.filter((one) => isTelling(one) && (one.code !== undefined || !ofCalls.has(one.text)));
  } finally {
    api.close();
  }
}

/** Returns a message in one line, with one hole in place of several. What may be meant differs, and is explained once for all. */
const shortened = (text: string): string =>
  text
    .replaceAll(/\s+/g, " ")
    .replaceAll(/…(?: ?…)+/g, "…")
    .replace(/^(?:…[:.]? )+/, "… ")
    .replace(/^… (?=\p{Lu})/u, "")
    .replace(/(?<=[.?!])…$/, "")
    .replaceAll(/ Did you mean "?…"?\?/g, "")
    .replaceAll(/; (?:did you mean …\? )?[Tt]here are …/g, "; there are …")
    .replaceAll("`", "'")
    .trim();

/** The fewest letters of a message, without its values. */
const FEWEST_LETTERS = 12;

const isTelling = ({ text }: Said): boolean =>
  !/ (?:and|or)$/.test(text) &&
  (text.match(/\p{L}/gu)?.length ?? 0) >= FEWEST_LETTERS &&
  text.replaceAll("…", "").trim().includes(" ");

/** The parts of messages, and what to do: of the table in the page about errors, and of the list for the reference alone. */
const remedies = (): readonly (readonly [parts: readonly string[], remedy: string])[] =>
  [
    ...(markedTables("(messages)").get("messages") ?? []).flatMap(([cell, remedy = ""]) =>
      namesIn(cell).map((text) => [text, remedy] as const),
    ),
    ...REMEDIES,
  ].map(([text, remedy]) => [text.split("…").map((part) => part.trim()), remedy] as const);

/** Returns a text of the docs with links that lead from the folder of the reference. */
const fromReference = (text: string): string =>
  text.replaceAll(/\]\((reference\/)?(?=[\w-]+\.md)/g, (_all, own: string | undefined) => (own ? "](" : "](../"));

/** Returns the remedy of the first row whose text stands in a message. */
function remedyOf(message: string, rows: ReturnType<typeof remedies>): string {
  const found = rows.find(([parts]) => {
    let end = 0;
    return parts.every((part) => {
      const at = message.indexOf(part, end);
      end = at + part.length;
      return at >= 0;
    });
  });
  return fromReference(found?.[1] ?? "");
}

/** The longest text in one piece. */
const MOST_CHARS = 100;

/** Returns the sentences of a message, and the clauses of a sentence that is too long for a line. */
const sentencesOf = (text: string): string[] =>
  text
    .split(/(?<=[.?!]) (?=["'\p{Lu}…-])/u)
    .flatMap((one) => (one.length > MOST_CHARS ? clausesOf(one) : one))
    .filter((part) => /\p{L}{3}/u.test(part));

function clausesOf(sentence: string): string[] {
  const clauses: string[] = [];
  for (const part of sentence.split(/(?<=[,:;]) /)) {
    const longer = `${clauses.at(-1)} ${part}`;
    if (clauses.length > 0 && longer.length <= MOST_CHARS) clauses[clauses.length - 1] = longer;
    else clauses.push(part);
  }
  return clauses;
}

/** Returns the messages of a section as a list. Messages with one beginning share an item, which has each sentence once. */
function listOf(texts: readonly string[], rows: ReturnType<typeof remedies>): string {
  const items = new Map<string, Set<string>>();
  const sorted = texts.toSorted();
  for (const text of sorted) {
    // The beginning of another message tells nothing more.
    if (text.endsWith("…") && sorted.some((other) => other !== text && other.startsWith(text.slice(0, -1)))) continue;
    const [first = "", ...rest] = sentencesOf(text);
    const item = items.get(first) ?? new Set<string>();
    for (const sentence of rest) item.add(sentence);
    items.set(first, item);
  }
  return Array.from(items, ([first, rest]) => {
    const spans = [first, ...rest].map((sentence) => `\`${sentence}\``).join(" ");
    const remedy = remedyOf([first, ...rest].join(" "), rows);
    return wrapped(`- ${spans}${remedy === "" ? "" : ` → ${remedy}`}`, "  ");
  }).join("\n");
}

/** Returns the page. */
export function messagesPage(): string {
  const all = messages();
  const rows = remedies();
  const codes = new Map(
    [...markedTables("(codes)").values()]
      .flat()
      .flatMap(([cell, text = ""]) => namesIn(cell).map((code) => [code, text])),
  );
  const ofCalls = GATEWAY_ERROR_CODES.flatMap((code) => {
    const texts = all.flatMap((one) => (one.code === code ? one.text : []));
    const about = fromReference(codes.get(code) ?? "");
    return texts.length === 0
      ? []
      : [`### \`${code}\``, wrapped(`[Errors](../errors.md#codes): ${about}`), listOf(texts, rows)];
  });
  const ofHosts = AREAS.flatMap(([path, name, about]) => {
    const texts = all.flatMap((one) =>
      one.code === undefined && AREAS.find(([other]) => other.test(one.file))?.[0] === path ? one.text : [],
    );
    return texts.length === 0 ? [] : [`### ${name}`, about, listOf(texts, rows)];
  });
  return `${[
    "# Messages by their text",
    wrapped(
      "A `…` stands for a part that differs. Behind an arrow is what to do, as far as the message does not say so. Some messages are a part of another one.",
    ),
    "## To callers",
    ...ofCalls,
    "## To hosts and operators",
    ...ofHosts,
  ].join("\n\n")}\n`;
}
