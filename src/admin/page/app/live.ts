/** The view of live calls: the calls that run, looked at again and again, and the calls that have ended last. */

import { type Signal, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { withEscapes } from "../../../model/visible.ts";
import type { LiveCall } from "../../../ports/observer.ts";
import type { RecordedCall } from "../../../stores/calls.ts";
import { plain } from "./amounts.ts";
import { hasFailed as hasPartFailed, type Listed, notice, read, shownPart, tellFailure } from "./api.ts";
import { askUser, CallId, type Column, html, Name, RowButton, spentBy, Table, Time, type View } from "./parts.ts";
import { Ended } from "./refusals.ts";

/** The time between two looks, in milliseconds. */
const EVERY_MS = 2_000;

export interface Running {
  /** The time of the answer, by the server's clock. */
  readonly at: number;
  readonly total: number;
  readonly data: readonly LiveCall[];
}

const running: Signal<Running | undefined> = signal(undefined);
const ended: Signal<readonly RecordedCall[] | undefined> = signal(undefined);
const isPaused = signal(false);
/** True when the last look has failed, and the notice says why. */
let hasFailed = false;

const isShown = (): boolean => shownPart.value === "live";

/**
 * Looks at the running calls, and at the calls that have ended last. A success leaves the notice of what the user has done.
 *
 * @param hasRecords True when the host has records of calls.
 */
export async function loadLive(hasRecords: boolean): Promise<void> {
  try {
    running.value = (await read<Running>("live")).body;
    if (hasRecords) ended.value = (await read<Listed<RecordedCall>>("calls?limit=20")).body.data;
    if (!isShown()) return;
    if (hasFailed) notice.value = undefined;
    hasPartFailed.value = hasFailed = false;
  } catch (error) {
    // The user may have gone to another part meanwhile.
    if (!isShown()) return;
    hasPartFailed.value = hasFailed = true;
    tellFailure(error);
  }
}

const stop = (requestId: string, reload: () => Promise<void>): void =>
  askUser({
    title: "Stop the call",
    action: "Stop",
    isDangerous: true,
    text: `The caller of ${requestId} gets an error, and its key is charged for what the call has used.`,
    run: async (_values, write) => {
      await write("POST", `live/${encodeURIComponent(requestId)}/stop`, {});
      await reload();
      return `${requestId} is stopped.`;
    },
  });

/** @param reload Loads what is shown again. */
export const stopAll = (key: string, reload: () => Promise<void>): void =>
  askUser({
    title: "Stop all calls of the key",
    action: "Stop all",
    isDangerous: true,
    text: `All calls of ${key} that run in this process end. Their callers get an error, and the key is charged for what they have used. Pause the key to refuse its new calls.`,
    run: async (_values, write) => {
      const { body } = await write<{ readonly stopped: number }>(
        "POST",
        `keys/${encodeURIComponent(key)}/stop-calls`,
        {},
      );
      await reload();
      return `${plain.format(body.stopped)} ${body.stopped === 1 ? "call" : "calls"} of ${key} stopped.`;
    },
  });

/** Shows a time in the unit that fits. The clocks of processes may differ a little. */
function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

const transportOf = ({ webSocket, stream }: LiveCall): string =>
  webSocket ? "WebSocket" : stream ? "stream" : "whole";

const KEY: Column<LiveCall> = {
  name: "Key",
  cell: ({ key }) =>
    key ? html`<span class="long">${withEscapes(key.id)}</span><${Name} of=${key.name} id=${key.id} />` : "–",
};

const outputOf = ({ usage, images }: LiveCall): string =>
  images ? `${plain.format(images.count)} images` : usage ? plain.format(usage.outputTokens) : "–";

/**
 * Returns the columns of running calls.
 *
 * @param reload Loads what is shown again.
 * @param hasKeys False for the calls of one key.
 */
export const columnsAt = (
  now: number,
  hasRecords: boolean,
  reload: () => Promise<void>,
  hasKeys: boolean = true,
): readonly Column<LiveCall>[] => [
  {
    name: "Call",
    cell: ({ requestId, beganAt }) =>
      html`<${Time} at=${beganAt} isRecord /><${CallId} id=${requestId} isLink=${hasRecords} />`,
  },
  { name: "Runs for", isNumber: true, cell: ({ beganAt }) => duration(now - beganAt) },
  ...(hasKeys ? [KEY] : []),
  {
    name: "Model",
    cell: ({ modelAsked, upstream }) =>
      html`<span class="long">${withEscapes(modelAsked ?? "–")}</span
        >${upstream !== undefined && html`<span class="quiet">${upstream}</span>`}`,
  },
  {
    name: "Route",
    cell: (call) =>
      html`<span class="route">${call.method} ${call.route}</span
        ><span class="quiet">${call.format}, ${transportOf(call)}</span>`,
  },
  { name: "Input tokens", isNumber: true, cell: ({ usage }) => (usage ? plain.format(usage.inputTokens) : "–") },
  { name: "Output so far", isNumber: true, cell: outputOf },
  {
    name: "Change",
    isChange: true,
    cell: ({ requestId, key }) =>
      html`<div class="row-buttons">
        <${RowButton} name="Stop" row=${requestId} onClick=${() => stop(requestId, reload)} />
        ${hasKeys && key && html`<${RowButton} name="Stop all of key" row=${key.id} onClick=${() => stopAll(key.id, reload)} />`}
      </div>`,
  },
];

const endedColumnsOf = (rows: readonly RecordedCall[]): readonly Column<RecordedCall>[] => [
  { name: "Call", cell: ({ requestId, at }) => html`<${Time} at=${at} isRecord /><${CallId} id=${requestId} />` },
  { name: "Took", isNumber: true, cell: ({ endMs }) => duration(endMs) },
  {
    name: "Key",
    cell: ({ keyId, keyName: name }) =>
      html`<span class="long">${withEscapes(keyId ?? "–")}</span><${Name} of=${name} id=${keyId} />`,
  },
  { name: "Model", cell: ({ modelAsked }) => html`<span class="long">${withEscapes(modelAsked ?? "–")}</span>` },
  {
    // The route names a call without a model, such as a list of models.
    name: "Route",
    cell: ({ route, format }) => html`<span class="route">${route}</span><span class="quiet">${format}</span>`,
  },
  {
    name: "Outcome",
    cell: ({ outcome, status }) => html`<${Ended} as=${outcome} /><span class="quiet">${status}</span>`,
  },
  { name: "Input tokens", isNumber: true, cell: ({ inputTokens }) => plain.format(inputTokens) },
  { name: "Output tokens", isNumber: true, cell: ({ outputTokens }) => plain.format(outputTokens) },
  spentBy(
    rows,
    ({ units }) => units,
    ({ currency }) => currency,
  ),
];

export function Live({ calls }: { calls: boolean }): View {
  useEffect(() => {
    let isLooking = false;
    const look = async (): Promise<void> => {
      // A slow server is asked no faster than it answers.
      if (isPaused.value || isLooking || document.hidden) return;
      isLooking = true;
      await loadLive(calls);
      isLooking = false;
    };
    const timer = setInterval(() => void look(), EVERY_MS);
    return () => clearInterval(timer);
  }, [calls]);
  const { at = 0, total = 0, data } = running.value ?? {};
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Live</h2>
      <button type="button" aria-pressed=${isPaused.value} onClick=${() => (isPaused.value = !isPaused.value)}>
        Pause updates
      </button>
    </header>
    <h3>Calls that run in this process</h3>
    <${Table}
      caption="Calls that run in this process"
      columns=${columnsAt(at, calls, () => loadLive(false))}
      rows=${data}
      keyOf=${({ requestId }: LiveCall) => requestId}
      empty="No call runs."
      isDense
    />
    ${data && total > data.length && html`<p class="quiet">These are the oldest of ${plain.format(total)} calls.</p>`}
    ${
      calls
        ? html`<h3>Calls that have ended last</h3>
            <div class="last">
              <${Table}
                caption="Calls that have ended last"
                columns=${endedColumnsOf(ended.value ?? [])}
                rows=${ended.value}
                keyOf=${({ requestId }: RecordedCall) => requestId}
                empty="No call is recorded."
                isDense
              />
            </div>`
        : html`<p class="quiet">
            This admin has no records of calls, and so neither Spend nor Calls: give it the option calls.
          </p>`
    }
  </section>`;
}
