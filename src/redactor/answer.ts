/** Restores the values in the pieces of one answer. */

import type { Annotation } from "../model/chat-event.ts";
import type { WireObject } from "../model/chat-request.ts";
import { utf8Length } from "../model/json.ts";
import type { HookEvent } from "../ports/hook.ts";
import { mapJson, mapProvided } from "./request.ts";
import { codePoints, Offsets, Restorer, restoredIn, type TrieNode } from "./restore.ts";

/** The most annotations that wait for the text before them. */
const MAX_WAITING = 1_000;

type Of<Type extends HookEvent["type"]> = Extract<HookEvent, { type: Type }>;
type Delta = Of<"text-delta"> | Of<"refusal-delta"> | Of<"reasoning-delta">;

interface CandidateTexts {
  /** The places in the answer's text, in bytes, as neutral annotations count them. */
  readonly bytes: Offsets;
  /** The places in code points, as OpenAI's annotations count them in a block. */
  readonly points: Offsets;
  /** A text for each type of delta: only one of them goes on at a time. */
  readonly texts: Map<Delta["type"], Restorer>;
  /** The last delta, while the end of its text is held back. */
  last: Delta | undefined;
  /** The block of the text that goes on; undefined where another text begins a block. */
  block: { readonly name: string | undefined } | undefined;
  /** The annotations behind the text that is held back. */
  waiting: Of<"annotation">[];
}

/** A tool call whose arguments are being written. */
interface OpenArguments {
  readonly json: Restorer;
  readonly event: Of<"tool-call-delta">;
}

export class RestoredAnswer {
  readonly #trie: TrieNode;
  readonly #isJson: boolean;
  readonly #restoresReasoning: boolean;
  readonly #documents: readonly (Offsets | undefined)[];
  readonly #candidates = new Map<number, CandidateTexts>();
  readonly #calls = new Map<string, OpenArguments>();

  /**
   * @param isJson True when the text of the answer is JSON.
   * @param restoresReasoning True to restore values in the reasoning, too.
   * @param documents The places in the texts of the request's documents, in code points. Other documents have none.
   */
  constructor(
    trie: TrieNode,
    isJson: boolean,
    restoresReasoning: boolean,
    documents: readonly (Offsets | undefined)[],
  ) {
    this.#documents = documents;
    this.#trie = trie;
    this.#isJson = isJson;
    this.#restoresReasoning = restoresReasoning;
  }

  /** Returns the pieces to show in place of one. Between two pieces, at most the length of one replacement is held back for each text. */
  next(event: HookEvent): readonly HookEvent[] {
    const restore = (text: string): string => restoredIn(text, this.#trie);
    switch (event.type) {
      case "text-delta":
      case "refusal-delta":
        return this.#text(event);
      case "reasoning-delta":
        return this.#restoresReasoning ? this.#text(event) : [...this.#flush(event), event];
      case "tool-call-start":
        this.#calls.set(event.id, {
          json: new Restorer(this.#trie, true),
          event: { type: "tool-call-delta", id: event.id, json: "", ...ofCandidate(event) },
        });
        return [...this.#flush(event), event];
      case "tool-call-delta": {
        const json = this.#calls.get(event.id)?.json.push(event.json) ?? event.json;
        return json === "" ? [] : [{ ...event, json }];
      }
      case "tool-call-end": {
        const rest = this.#endCall(event.id);
        return [...rest, event];
      }
      case "tool-call":
        return [...this.#flush(event), { ...event, input: mapJson(event.input, restore) }];
      case "code":
        return [...this.#flush(event), { ...event, code: restore(event.code) }];
      case "code-result":
        return [
          ...this.#flush(event),
          { ...event, ...(event.output !== undefined && { output: restore(event.output) }) },
        ];
      case "provider":
        return [...this.#flush(event), { ...event, value: mapProvided(event.value, restore) }];
      case "annotation":
        return this.#annotation(event);
      case "image":
        return [
          { ...event, ...(event.revisedPrompt !== undefined && { revisedPrompt: restore(event.revisedPrompt) }) },
        ];
      case "finish":
        return [...this.#flushAll(), finished(event, restore)];
      case "media":
      case "redacted-reasoning":
      case "reasoning-signature":
        return [...this.#flush(event), event];
      case "prompt-feedback":
      case "partial-image":
        return [event];
      default:
        return [event satisfies never];
    }
  }

  #candidateOf({ candidate = 0 }: { readonly candidate?: number }): CandidateTexts {
    let own = this.#candidates.get(candidate);
    if (!own) {
      const places = { bytes: new Offsets(utf8Length), points: new Offsets(codePoints) };
      own = { ...places, texts: new Map(), last: undefined, block: undefined, waiting: [] };
      this.#candidates.set(candidate, own);
    }
    return own;
  }

  #text(event: Delta): readonly HookEvent[] {
    const candidate = this.#candidateOf(event);
    const { last } = candidate;
    // Another text goes on: nothing can complete the one before.
    const before = last && (last.type !== event.type || blockOf(last) !== blockOf(event)) ? this.#flush(event) : [];
    const block = event.type === "text-delta" ? { name: event.block } : undefined;
    if (block && (!candidate.block || candidate.block.name !== block.name)) candidate.points.beginBlock();
    candidate.block = block;
    let restorer = candidate.texts.get(event.type);
    if (!restorer) {
      const isAnswer = event.type === "text-delta";
      const places = isAnswer ? [candidate.bytes, candidate.points] : [];
      restorer = new Restorer(this.#trie, isAnswer && this.#isJson, places);
      candidate.texts.set(event.type, restorer);
    }
    let text = restorer.push(event.text);
    const isSigned = "signature" in event && event.signature !== undefined;
    if (isSigned) text += restorer.flush();
    candidate.last = restorer.isHolding ? event : undefined;
    if (text === "" && !isSigned) return before;
    return [...before, { ...event, text }, ...this.#released(candidate)];
  }

  #annotation(event: Of<"annotation">): readonly HookEvent[] {
    const candidate = this.#candidateOf(event);
    // Some formats send an annotation for each token, so it does not end the text.
    if (candidate.last) {
      candidate.waiting.push(event);
      return candidate.waiting.length <= MAX_WAITING ? [] : this.#flush(event);
    }
    return [this.#shifted(event, candidate)];
  }

  /** Returns the annotations behind a text that was shown. */
  #released(candidate: CandidateTexts): HookEvent[] {
    const { waiting } = candidate;
    candidate.waiting = [];
    return waiting.map((event) => this.#shifted(event, candidate));
  }

  /** Returns the end of a candidate's text: something else follows it. */
  #flush(event: { readonly candidate?: number }): HookEvent[] {
    const candidate = this.#candidateOf(event);
    const { last, texts } = candidate;
    candidate.last = candidate.block = undefined;
    const text = last ? (texts.get(last.type)?.flush() ?? "") : "";
    if (!last || text === "") return this.#released(candidate);
    const { type } = last;
    const block = blockOf(last);
    const rest = { type, text, ...ofCandidate(last), ...(block !== undefined && { block }) } as Delta;
    return [rest, ...this.#released(candidate)];
  }

  #endCall(id: string): HookEvent[] {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    const json = call?.json.flush() ?? "";
    return call && json !== "" ? [{ ...call.event, json }] : [];
  }

  #flushAll(): HookEvent[] {
    return [
      ...Array.from(this.#candidates.keys()).flatMap((candidate) => this.#flush({ candidate })),
      ...Array.from(this.#calls.keys()).flatMap((id) => this.#endCall(id)),
    ];
  }

  #shifted(event: Of<"annotation">, { bytes, points }: CandidateTexts): HookEvent {
    const restore = (text: string): string => restoredIn(text, this.#trie);
    const annotation = shifted(event.annotation, bytes, restore);
    if (!("native" in annotation) || !annotation.native) return { ...event, annotation };
    const values = annotation.native.values.map((value) => this.#provided(mapProvided(value, restore), points));
    return { ...event, annotation: { ...annotation, native: { ...annotation.native, values } } };
  }

  /** Shifts the indices in a provider's own annotation: those in the block of text, and those in a document of the request. */
  #provided(value: WireObject, points: Offsets): WireObject {
    const { url_citation, document_index } = value;
    const document = typeof document_index === "number" ? this.#documents[document_index] : undefined;
    return {
      ...value,
      ...shiftedFields(value, "start_index", "end_index", (at, border) => points.shiftInBlock(at, border)),
      ...(typeof url_citation === "object" &&
        url_citation !== null && { url_citation: this.#provided(url_citation as WireObject, points) }),
      ...(document &&
        shiftedFields(value, "start_char_index", "end_char_index", (at, border) => document.shift(at, border))),
    };
  }
}

/** Returns the two fields of a range, shifted, as far as they are there. */
function shiftedFields(
  value: WireObject,
  start: string,
  end: string,
  shift: (at: number, border: "start" | "end") => number,
): WireObject {
  const [from, to] = [value[start], value[end]];
  return {
    ...(typeof from === "number" && { [start]: shift(from, "start") }),
    ...(typeof to === "number" && { [end]: shift(to, "end") }),
  };
}

const blockOf = (event: Delta): string | undefined => ("block" in event ? event.block : undefined);

const ofCandidate = ({ candidate }: { readonly candidate?: number }): { readonly candidate?: number } =>
  candidate === undefined ? {} : { candidate };

interface Range {
  readonly start?: number;
  readonly end?: number;
}

const shiftedRange = <Ranged extends Range>(range: Ranged, offsets: Offsets): Ranged => ({
  ...range,
  ...(range.start !== undefined && { start: offsets.shift(range.start, "start") }),
  ...(range.end !== undefined && { end: offsets.shift(range.end, "end") }),
});

/** Returns an annotation of the shown text. Log probabilities stay: they are of the tokens that the model has chosen. */
function shifted(annotation: Annotation, offsets: Offsets, restore: (text: string) => string): Annotation {
  switch (annotation.type) {
    case "citations":
      return {
        ...annotation,
        citations: annotation.citations.map(({ title, quote, ...citation }) => ({
          ...shiftedRange(citation, offsets),
          ...(title !== undefined && { title: restore(title) }),
          ...(quote !== undefined && { quote: restore(quote) }),
        })),
      };
    case "grounding": {
      const { chunks, supports, searchQueries } = annotation;
      return {
        ...annotation,
        ...(chunks && {
          chunks: chunks.map(({ title, ...chunk }) => ({
            ...chunk,
            ...(title !== undefined && { title: restore(title) }),
          })),
        }),
        ...(searchQueries && { searchQueries: searchQueries.map(restore) }),
        ...(supports && {
          supports: supports.map(({ segment, ...support }) => ({
            ...support,
            ...(segment && {
              segment: {
                ...shiftedRange(segment, offsets),
                ...(segment.text !== undefined && { text: restore(segment.text) }),
              },
            }),
          })),
        }),
      };
    }
    case "attributions":
      return {
        ...annotation,
        attributions: annotation.attributions.map(({ text, ...attribution }) => ({
          ...attribution,
          ...(text !== undefined && { text: restore(text) }),
        })),
      };
    default:
      return annotation;
  }
}

function finished(event: Of<"finish">, restore: (text: string) => string): HookEvent {
  if (!("endings" in event)) return event;
  const [first, ...others] = event.endings;
  const restored = (ending: typeof first): typeof first =>
    ending.stopSequence === undefined ? ending : { ...ending, stopSequence: restore(ending.stopSequence) };
  return { ...event, endings: [restored(first), ...others.map(restored)] };
}
