/** Writes the page of the reference with the routes of the admin, from its OpenAPI document. */

import { openApiOf } from "../../src/admin/http/openapi.ts";
import { OPERATIONS } from "../../src/admin/http/operations.ts";
import { table } from "./tables.ts";
import { wrapped } from "./wrapped.ts";

/** A JSON Schema, as far as the admin's document has them. */
interface Schema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly pattern?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Content {
  readonly content: { readonly "application/json": { readonly schema: Schema } };
}

interface Route {
  readonly summary: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

/** The answers of several routes: a field that no other answer has, and the name. */
const SHARED: readonly (readonly [field: string, name: string])[] = [
  ["limitedBy", "key"],
  ["percentSpent", "budget"],
  ["reasons", "call"],
];

/** Returns the name of an answer that several routes have. */
const sharedOf = ({ properties = {} }: Schema): string | undefined =>
  SHARED.find(([field]) => Object.hasOwn(properties, field))?.[1];

function typeOf({ type = "any", enum: choices, anyOf, items, minimum, pattern = "" }: Schema): string {
  if (anyOf) return anyOf.map(typeOf).join(" or ");
  if (choices) return choices.map((choice) => `\`${choice}\``).join(", ");
  if (items) return `list of ${typeOf(items)}s`;
  if (pattern.startsWith("^\\d")) return "integer";
  return `${type}${type === "integer" && minimum === 1 ? " from 1" : ""}`;
}

const fieldsOf = ({ properties = {}, required = [] }: Schema): readonly Field[] =>
  Object.entries(properties).map(([name, schema]) => ({ name, schema, mayLack: !required.includes(name) }));

/** A field or a parameter. */
interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly mayLack: boolean;
}

const namesOf = (fields: readonly Field[]): string =>
  fields.length === 0 ? "" : `\`${fields.map(({ name, mayLack }) => (mayLack ? `${name}?` : name)).join(" ")}\``;

/** Describes each field of some routes: once, or for each group of routes in which it differs. */
function listOf(fields: readonly (Field & { readonly route?: string })[]): string {
  const found = new Map<string, Map<string, string[]>>();
  for (const { name, schema, mayLack, route } of fields) {
    const shown = route === undefined && mayLack ? `${name}?` : name;
    const kinds = found.get(shown) ?? new Map<string, string[]>();
    const told = [typeOf(schema), descriptionOf(schema)].filter(Boolean).join(". ").replace(/\.$/, "");
    found.set(shown, kinds.set(told, [...(kinds.get(told) ?? []), route ?? ""]));
  }
  return Array.from(found, ([name, kinds]) => {
    const told = Array.from(kinds, ([text, routes]) => (kinds.size > 1 ? `${routes.join(", ")}: ${text}` : text));
    return wrapped(`- \`${name}\`: ${told.join("; ")}`, "  ");
  }).join("\n");
}

const descriptionOf = ({ description, anyOf = [] }: Schema): string | undefined =>
  description ?? anyOf.map(descriptionOf).find(Boolean);

/** The most characters of an answer in the table. */
const MOST_CHARS = 24;

function answerIn(schema: Schema): string {
  const { data } = schema.properties ?? {};
  const item = data?.items && sharedOf(data.items);
  if (item) return `[${item}s](#a-${item})`;
  const shared = sharedOf(schema);
  return shared ? `[${shared}](#a-${shared})` : namesOf(fieldsOf(schema));
}

/** The statuses of refusals that not every route has, by the header of the request that avoids them. */
const REFUSALS: Readonly<Record<string, string>> = { "idempotency-key": "409", "if-match": "412", confirm: "428" };

export function adminRoutesPage(): string {
  const { paths } = openApiOf(OPERATIONS, "/") as { readonly paths: Readonly<Record<string, Record<string, Route>>> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => {
      const { summary, parameters, requestBody, responses } = route;
      // The answer stands before the refusals.
      const [answer] = Object.values(responses) as [Content];
      return {
        name: `\`${method.toUpperCase()} ${path.replace("{id}", "ID")}\``,
        summary,
        query: parameters
          .filter((one) => one.in === "query")
          .map(({ name, required, schema }): Field => ({ name, schema, mayLack: !required })),
        body: requestBody ? fieldsOf(schemaIn(requestBody)) : [],
        answer: schemaIn(answer),
        refusals: parameters.flatMap(({ name }) => REFUSALS[name] ?? []),
      };
    }),
  );
  const answers = routes.flatMap(({ answer }) => [answer, answer.properties?.["data"]?.items ?? {}]);
  return `# Routes of the admin

${wrapped("The routes below the path of [the admin](../admin.md#routes), as its `GET /openapi.json` describes them. A field with a `?` may be missing. Bodies and answers are JSON, and lists also CSV where a query has a `format`.")}

${table(
  ["Route", "Body", "Answer", "Errors"],
  routes.map(({ name, body, answer, refusals }) => {
    const told = answerIn(answer);
    return [name, namesOf(body), told.length > MOST_CHARS ? "see below" : told, refusals.join(" ")];
  }),
)}

${wrapped(
  "Every route may also answer with 400, 401, 404, 500 or 503, and a change with 403, 413 or 415: see [error codes](../admin.md#error-codes). An answer has the status 200, or 201 with what was made.",
)}

## What a route does

${routes
  .map(({ name, query, summary, answer }) => {
    const told = answerIn(answer);
    const more = [
      query.length > 0 ? ` Query: ${namesOf(query)}.` : "",
      told.length > MOST_CHARS ? ` Answer: ${told}.` : "",
    ];
    return wrapped(`- ${name}: ${summary}${more.join("")}`, "  ");
  })
  .join("\n")}

## Fields of bodies

${listOf(named(routes, ({ body }) => body))}

## Fields of queries

${listOf(named(routes, ({ query }) => query))}

${SHARED.map(([field, name]) => {
  const schema = answers.find(({ properties = {} }) => Object.hasOwn(properties, field)) ?? {};
  return `## A ${name}\n\n${listOf(fieldsOf(schema))}`;
}).join("\n\n")}
`;
}

const schemaIn = ({ content }: Content): Schema => content["application/json"].schema;

/** Returns the fields of all routes by the alphabet, each with its route. */
const named = <One extends { readonly name: string }>(
  routes: readonly One[],
  fieldsIn: (route: One) => readonly Field[],
): readonly (Field & { readonly route: string })[] =>
  routes
    .flatMap((route) => fieldsIn(route).map((field) => ({ ...field, route: route.name })))
    .toSorted((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0));
