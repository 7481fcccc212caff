/**
 * Values that calls share. An agent sends its tools and its earlier turns again with each call, and a later call gets the same frozen values
 * for them. A function of such a value alone has the same result in each call, and runs once.
 */

import { isContainer } from "./json.ts";

/** A frozen value in a list. Other lists may have it, too. */
export interface ListedValue {
  /** The schema that the value holds to; undefined for a value that was not validated, or that has an unknown type or word. */
  holdsTo?: object | undefined;
  /** The results for the value. A function's number is the index of its result. Undefined until a second call has the value. */
  results: unknown[] | undefined;
}

/** The values of frozen lists. There is no map from each value to its results: hundreds of look-ups in a large map cost more than they save. */
const LISTED = new WeakMap<object, readonly ListedValue[]>();

/** Freezes a list of frozen values. Results that are derived from a value are then kept for other lists with the same value. */
export function listed<List extends readonly unknown[]>(list: List, values: readonly ListedValue[]): List {
  LISTED.set(Object.freeze(list), values);
  return list;
}

/** Returns the values of a list that were given to `listed`. */
export const listedIn = (list: readonly unknown[]): readonly ListedValue[] | undefined => LISTED.get(list);

/** Counts the functions that `derived` and `derivedList` have made. */
let functions = 0;

/** Makes an empty list of results, no longer than needed: a conversation has hundreds. */
export const noResults = (): unknown[] => Array.from({ length: functions });

/** A value that only one call has had. */
const UNSHARED: ListedValue = Object.freeze({ results: undefined });

/**
 * Returns a function of a value in a list. Its results for shared values are kept as long as these values. They must be small beside the values,
 * because no memory is booked for them.
 *
 * @param make Makes a result from the value alone. The result for a shared value is frozen.
 */
export function derived<Value, Result>(
  make: (value: Value) => Result,
): (value: Value, listed: ListedValue | undefined) => Result {
  const number = functions++;
  return (value, { results } = UNSHARED) =>
    results ? ((results[number] ??= frozen(make(value))) as Result) : make(value);
}

/** Stands for some neighbouring values: holds the result for them, and leads to the step with one more value. */
interface NeighbourStep extends ListedValue {
  value?: unknown;
  next?: WeakMap<ListedValue, NeighbourStep> | undefined;
}

/** The most neighbours whose result is kept: each step takes memory. */
const MOST_NEIGHBOURS = 4;

/**
 * Returns a function of a list that makes a list of results, each from one value or from several neighbours. Results of shared values are kept
 * and shared in turn.
 *
 * @param make Makes a result from the values alone. The result for shared values is frozen.
 */
export function derivedList<Value, Result extends object>(
  make: (values: readonly Value[]) => Result,
): (list: readonly Value[], starts?: Iterable<number>) => Result[] {
  const number = functions++;
  return (list, given = list.keys()) => {
    const known = LISTED.get(list);
    const starts = [...given];
    const steps: ListedValue[] = [];
    const results = starts.map((start, index) => {
      const end = starts[index + 1] ?? list.length;
      const step = known && stepTo(known, start, end, number);
      steps.push(step ?? UNSHARED);
      const made = (step?.value as Result | undefined) ?? make(list.slice(start, end));
      if (step) step.value ??= frozen(made);
      return made;
    });
    return known ? listed(results, steps) : results;
  };
}

/**
 * Returns the step of some neighbours; undefined if one of them is not shared. Each value keeps one result, the one for its latest neighbours:
 * a caller who divides the same messages into ever new turns fills no memory.
 */
function stepTo(known: readonly ListedValue[], start: number, end: number, number: number): NeighbourStep | undefined {
  const { results } = known[start] ?? UNSHARED;
  if (!results || end - start > MOST_NEIGHBOURS) return undefined;
  let step = (results[number] ??= { results: undefined }) as NeighbourStep;
  for (let at = start + 1; at < end; at++) {
    const value = known[at];
    if (!value?.results) return undefined;
    // Each value leads weakly to the next one, so that no result outlives any of its values.
    let next = step.next?.get(value);
    if (!next) step.next = new WeakMap([[value, (next = { results: undefined })]]);
    step.value = step.results = undefined;
    step = next;
  }
  step.results ??= noResults();
  step.next = undefined;
  return step;
}

/** Freezes a value and all values inside it. Walks without recursion, because a host may allow deeper bodies than the stack. */
export function frozen<Value>(value: Value): Value {
  const open: object[] = isContainer(value) ? [value] : [];
  for (let one = open.pop(); one; one = open.pop()) {
    // V8 walks a list and an object's own names faster before they are frozen.
    if (Array.isArray(one)) {
      for (const inner of one as unknown[]) if (isContainer(inner)) open.push(inner);
    } else {
      for (const name in one) {
        const inner = (one as Readonly<Record<string, unknown>>)[name];
        if (isContainer(inner)) open.push(inner);
      }
    }
    Object.freeze(one);
  }
  return value;
}

/** Returns a function of an object that runs once for each object. Its results are kept as long as the objects. */
export function remembered<Value extends object, Result>(make: (value: Value) => Result): (value: Value) => Result {
  const results = new WeakMap<Value, { readonly result: Result }>();
  return (value) => {
    const known = results.get(value) ?? { result: make(value) };
    results.set(value, known);
    return known.result;
  };
}
