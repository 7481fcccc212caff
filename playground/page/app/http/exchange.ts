/** Makes a call, and tracks its upload, its answer, its times and its end. */

import { type ReadonlySignal, signal } from "@preact/signals";
import type { ApiCall } from "./call.ts";
import { fetchCall } from "./fetch-call.ts";
import type { Listener } from "./listener.ts";
import { uploadCall } from "./upload-call.ts";

export interface Progress {
  /** `stopped`: the user has stopped the call. `broken`: the connection ended before the answer was complete. */
  readonly phase: "sending" | "receiving" | "done" | "stopped" | "broken";
  /** The sent share of an upload, from 0 to 1. */
  readonly uploaded?: number;
  readonly status?: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The body so far. */
  readonly text: string;
  /** Milliseconds from the start of the call. */
  readonly firstByteMs?: number;
  readonly totalMs?: number;
  /** The reason for the phase `broken`. */
  readonly problem?: string;
}

export interface Exchange {
  readonly progress: ReadonlySignal<Progress>;
  /** Resolves when the call has ended for any reason. Never rejects. */
  readonly ended: Promise<Progress>;
  readonly stop: () => void;
}

export const isRunning = ({ phase }: Progress): boolean => phase === "sending" || phase === "receiving";

/** Starts a call. Passes each piece of the body to `onText` before `progress` shows the piece. */
export function startExchange(call: ApiCall, onText: (text: string, progress: Progress) => void = () => {}): Exchange {
  const abort = new AbortController();
  const startedAt = performance.now();
  let now: Progress = { phase: "sending", headers: [], text: "" };
  const progress = signal(now);
  const publish = oncePerFrame(() => (progress.value = now));
  const change = (changes: Partial<Progress>): void => {
    now = { ...now, ...changes };
    publish.soon();
  };
  const elapsed = (): number => Math.round(performance.now() - startedAt);
  const listener: Listener = {
    onUpload: (uploaded) => change({ uploaded }),
    onHead: (status, headers) => change({ phase: "receiving", status, headers }),
    onText: (text) => {
      change({ text: now.text + text, firstByteMs: now.firstByteMs ?? elapsed() });
      onText(text, now);
    },
  };
  const run = async (): Promise<Progress> => {
    try {
      await (call.form ? uploadCall : fetchCall)(call, abort.signal, listener);
      change({ phase: "done" });
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      change(abort.signal.aborted ? { phase: "stopped" } : { phase: "broken", problem });
    }
    change({ totalMs: elapsed() });
    publish.now();
    return now;
  };
  return { progress, ended: run(), stop: () => abort.abort() };
}

/** Limits a function to a single run for each frame of the browser. */
export function oncePerFrame(run: () => void): { readonly soon: () => void; readonly now: () => void } {
  let waiting = 0;
  const now = (): void => {
    cancelAnimationFrame(waiting);
    waiting = 0;
    run();
  };
  return { now, soon: () => void (waiting ||= requestAnimationFrame(now)) };
}
