/** Reads the upstreams that a host has given. */

import { assertOptions, givenInstead, isPlain, nearest, type Shapes, shown, unknownName } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import type { RouteUpstream } from "./upstream.ts";

export const UPSTREAM: Shapes<RouteUpstream> = {
  backend: "any",
  name: "string?",
  weight: "amount?",
  model: "string?",
  prefill: "boolean?",
};

/** The members of a backend beside its verbs. A value that has one of them is a backend. */
const OTHER_MEMBERS: readonly string[] = ["countInputTokens", "models"];

/** Returns the right place of an option that stands at the wrong one; undefined for any other name. */
type PlaceOf = (name: string) => string | undefined;

/** Throws a TypeError for an option that belongs to another place, and names the place. */
export function assertPlace(where: string, options: object, shapes: object, placeOf: PlaceOf): void {
  const names = Object.keys(shapes);
  for (const name of isPlain(options) ? Object.keys(options) : []) {
    const place = names.includes(name) ? undefined : placeOf(name);
    if (place !== undefined) throw new TypeError(`${where}: ${unknownName(name, names, place)}.`);
  }
}

/** Returns an upstream as its route has it. Throws a TypeError for a value that is neither a backend nor an upstream. */
export function upstreamOf(
  where: string,
  one: ModelBackend | RouteUpstream,
  verbs: readonly string[],
  placeOf: PlaceOf = () => undefined,
): RouteUpstream {
  assertBackend(where, one, "backend", UPSTREAM, verbs, placeOf);
  if (!("backend" in one)) return { backend: one };
  assertPlace(where, one, UPSTREAM, placeOf);
  assertOptions<RouteUpstream>(where, one, UPSTREAM);
  const members = [...verbs, ...OTHER_MEMBERS];
  if (!members.some((member) => member in Object(one.backend)))
    throw new TypeError(`${where}: backend must be a backend, with at least one of ${members.join(", ")}.`);
  return one;
}

/** Throws a TypeError for a value that is neither a backend nor an object with the member `other`. */
export function assertBackend(
  where: string,
  value: unknown,
  other: string,
  shapes: object,
  verbs: readonly string[],
  placeOf: PlaceOf,
): void {
  if (Array.isArray(value) && other === "upstreams")
    throw new TypeError(`${where} is a list; write { upstreams: [...] } for several backends.`);
  if (typeof value === "function" || (typeof value === "object" && value !== null)) {
    const members = [...verbs, ...OTHER_MEMBERS];
    if ([...members, other].some((member) => member in value)) return;
    const instead = givenInstead(value);
    if (instead !== undefined)
      throw new TypeError(`${where} must be a backend, or an object with ${other}, not ${instead}.`);
    assertPlace(where, value, shapes, placeOf);
    const known = [...Object.keys(shapes), ...members];
    const misspelt = Object.keys(value).find((name) => !known.includes(name) && nearest(name, known));
    if (misspelt !== undefined) throw new TypeError(`${where}: ${unknownName(misspelt, known)}.`);
    throw new TypeError(
      `${where} is no backend and has no ${other}. A backend has at least one of ${verbs.join(", ")}.`,
    );
  }
  throw new TypeError(`${where} must be a backend, or an object with ${other}, not ${shown(value)}.`);
}

/**
 * Names the upstreams of one route: as the host does, else as the backend does, else by the route's pattern. No two get the same name by
 * default.
 *
 * @throws TypeError for two upstreams of the same name, because records, metrics and the state of the route could not tell them apart.
 */
export function namesOf(where: string, upstreams: readonly RouteUpstream[], pattern: string): readonly string[] {
  const ofBackend = (name: unknown): string => (typeof name === "string" && name !== "" ? name : pattern);
  const named = upstreams.map(({ name, backend }) => name ?? ofBackend(backend.name));
  const names = named.map((name, index) =>
    upstreams[index]?.name !== undefined || named.indexOf(name) === named.lastIndexOf(name) ? name : `${name} ${index}`,
  );
  for (const [index, name] of names.entries()) {
    const first = names.indexOf(name);
    if (first < index)
      throw new TypeError(
        `${where}: upstreams[${first}] and upstreams[${index}] have the same name, ${JSON.stringify(name)}. Give each upstream a name of its own.`,
      );
  }
  return names;
}
