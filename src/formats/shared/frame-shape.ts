/**
 * Frames of a stream that differ from an earlier frame by a text alone, as nearly all frames of a long answer do. Such a frame is found by
 * its bytes and is not parsed: all but its text stands in the earlier frame, which was parsed and checked.
 */

import { isJsonObject, type JsonLimits, type JsonObject, parseJson, valueAt } from "../../model/json.ts";

type Path = readonly [...(string | number)[], string];

/** The fields of a frame that may differ from frame to frame. A field that is missing does not vary. */
export interface VariedFields {
  readonly text: Path;
  /** Whole numbers that the decoder reads. */
  readonly counts?: readonly Path[];
  /** Whole numbers, and texts, that the decoder does not read. */
  readonly ignored?: readonly Path[];
}

/** The longest frame that is found by its bytes, in characters. Frames of a streamed text have some hundreds. */
const MAX_CHARS = 4_096;

/** Matches the lines in front of the data. Frames with others, such as an id, are left to the parser. */
const HEAD = /^(?:event: ?[^\r\n]*\r?\n)?data: ?$/;

/**
 * Matches the inside of a JSON string, but no half of a surrogate pair, which JSON must escape, and no character that frames must not have
 * unescaped. A frame has room for 2,048 escapes; to match millions overflows the stack.
 */
const STRING =
  /[ !#-[\]-\u0084\u0086-\u2027\u202a-\uffff]*(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})[ !#-[\]-\u0084\u0086-\u2027\u202a-\uffff]*){0,2048}/y;
/** Matches a whole number that is exact. */
const COUNT = /0|[1-9]\d{0,14}/y;

/** A value that differs from frame to frame, and its place in the data of the frame that was parsed. */
interface Hole {
  readonly path: Path;
  readonly use: "text" | "count" | "ignored";
  /** Matches the value. Of a text, that is all between the quotes. */
  readonly form: RegExp;
  readonly start: number;
  readonly end: number;
  /** Another value of the form. */
  readonly probe: string | number;
}

/** A frame without the values that differ. */
export class FrameShape {
  /** The data of the frame that was matched last, as it came. */
  data = "";
  /** The text of that frame, as it stands between its quotes. */
  text = "";
  /** The text in front of each hole, and the one behind the last. */
  readonly #parts: readonly string[];
  readonly #holes: readonly Hole[];
  /** The JSON in each hole of the frame that is being matched. */
  readonly #found: string[] = [];
  /** All behind the text of the frame that was matched last. */
  #rest = "";
  readonly #wire: JsonObject;
  /** The objects of the JSON that hold the values, by their holes. */
  readonly #holders: readonly JsonObject[];
  readonly #head: string;
  readonly #tail: string;
  readonly #maxChars: number;

  private constructor(
    head: string,
    parts: readonly string[],
    tail: string,
    holes: readonly Hole[],
    wire: JsonObject,
    most: number,
  ) {
    this.#parts = parts.map((part, index) => (index === 0 ? head : "") + part + (index === holes.length ? tail : ""));
    this.#holes = holes;
    this.#wire = wire;
    this.#holders = holes.map(({ path }) => valueAt(wire, path.slice(0, -1)) as JsonObject);
    this.#head = head;
    this.#tail = tail;
    this.#maxChars = most;
  }

  /**
   * Returns the shape of a frame. Returns undefined if other lines stand beside the data, or if a field does not stand where its name stands
   * first.
   *
   * @param frame The frame as it stands in the stream, with its blank line.
   * @param data The data of the frame, which is a JSON object.
   * @param wire The data as it was parsed.
   */
  static of(
    frame: string,
    data: string,
    wire: JsonObject,
    fields: VariedFields,
    limits?: JsonLimits,
  ): FrameShape | undefined {
    const tail = frame.endsWith("\r\n\r\n") ? "\r\n\r\n" : "\n\n";
    const head = frame.slice(0, -(data.length + tail.length));
    const most = Math.min(MAX_CHARS, limits?.maxJsonBytes ?? MAX_CHARS);
    if (frame.length > most || frame !== head + data + tail || !HEAD.test(head)) return undefined;
    const holes = holesIn(data, wire, fields);
    if (!holes) return undefined;
    // A value changes with its hole only if the parser reads it there: of members with one name, the last counts.
    const parts = partsOf(data, holes);
    const probed = parts.reduce((text, part, index) => text + String(holes[index - 1]?.probe) + part);
    const other = parseJson(probed, limits);
    if (!isJsonObject(other) || holes.some(({ path, probe }) => valueAt(other, path) !== probe)) return undefined;
    return new FrameShape(head, parts, tail, holes, other, most);
  }

  /** Tells whether a frame with this data has the shape. */
  fits(data: string): boolean {
    return this.match(this.#head + data + this.#tail, 0) > 0;
  }

  /**
   * Finds the frame of this shape that begins at a place of a stream. Returns the place behind it, or -1 if no such frame stands there. A frame
   * without a text has no shape.
   *
   * @param hasSameCounts True for a frame with the same counts as the last one.
   */
  match(source: string, from: number, hasSameCounts = false): number {
    const [parts, holes, found] = [this.#parts, this.#holes, this.#found];
    let [at, textStart, textEnd] = [from, 0, 0];
    for (let index = 0; index < holes.length; index++) {
      const part = parts[index] as string;
      const start = at + part.length;
      // Compare a slice: this is several times as fast as `startsWith`.
      if (source.slice(at, start) !== part) return -1;
      const { form, use } = holes[index] as Hole;
      form.lastIndex = start;
      if (!form.test(source)) return -1;
      at = form.lastIndex;
      if (use === "text") {
        [textStart, textEnd] = [start, at];
        // The same numbers often stand behind it.
        if (this.#rest !== "" && source.slice(at, at + this.#rest.length) === this.#rest)
          return this.#matched(source, from, textStart, textEnd, at + this.#rest.length);
      } else if (use === "count") {
        const json = source.slice(start, at);
        if (json === found[index]) continue;
        if (hasSameCounts) return -1;
        found[index] = json;
        this.#rest = "";
      }
    }
    const last = parts[holes.length] as string;
    const end = at + last.length;
    return source.slice(at, end) === last ? this.#matched(source, from, textStart, textEnd, end) : -1;
  }

  #matched(source: string, from: number, textStart: number, textEnd: number, end: number): number {
    if (textStart === textEnd || end - from > this.#maxChars) return -1;
    this.text = source.slice(textStart, textEnd);
    this.data = source.slice(from + this.#head.length, end - this.#tail.length);
    this.#rest = source.slice(textEnd, end);
    return end;
  }

  /**
   * Returns the JSON of the last frame with another text. The next call changes the same object.
   *
   * @param text The text as it stands between its quotes.
   */
  wireWith(text: string): JsonObject {
    for (let index = 0; index < this.#holes.length; index++) {
      const { use, path } = this.#holes[index] as Hole;
      if (use === "ignored") continue;
      const value = text.includes("\\") ? (parseJson(`"${text}"`) as string) : text;
      const holder = this.#holders[index] as JsonObject;
      holder[path.at(-1) as string] = use === "text" ? value : Number(this.#found[index]);
    }
    return this.#wire;
  }
}

/** Finds the fields in the data, in the order in which they stand there. Returns undefined if one is not where its name stands first. */
function holesIn(
  data: string,
  wire: JsonObject,
  { text, counts = [], ignored = [] }: VariedFields,
): Hole[] | undefined {
  const holes: Hole[] = [];
  for (const path of [text, ...counts, ...ignored]) {
    const value = valueAt(wire, path);
    const use = path === text ? "text" : counts.includes(path) ? "count" : "ignored";
    const isText = typeof value === "string" && use !== "count";
    if (!isText && (use === "text" || !Number.isSafeInteger(value))) continue;
    const form = isText ? STRING : COUNT;
    const name = new RegExp(`"${path.at(-1)}"[ \\t]*:[ \\t]*${isText ? '"' : ""}`).exec(data);
    if (!name) return undefined;
    const start = (form.lastIndex = name.index + name[0].length);
    if (!form.test(data)) return undefined;
    const probe = isText ? (value === "~" ? "-" : "~") : Number(value) + 1;
    holes.push({ path, use, form, start, end: form.lastIndex, probe });
  }
  const hasText = holes.some(({ use }) => use === "text");
  return hasText ? holes.toSorted((one, other) => one.start - other.start) : undefined;
}

/** Cuts the holes out of the data. */
function partsOf(data: string, holes: readonly Hole[]): string[] {
  let at = 0;
  const parts = holes.map(({ start, end }) => {
    const part = data.slice(at, start);
    at = end;
    return part;
  });
  return [...parts, data.slice(at)];
}

/**
 * Once frames have this many characters together, no further frames are joined to them. The limit on an answer's output is checked only
 * between two events.
 */
export const MAX_JOINED_CHARS = 4_096;
