/** Lists the events of a stream while they arrive. */

import type { ReadonlySignal } from "@preact/signals";
import { isObject, type Json, parsed } from "../json.ts";
import type { StreamEvent } from "../state/runs.ts";
import { Coloured } from "./coloured.ts";
import { html, type View } from "./html.ts";

/** The number of last events to show. */
const MAX_SHOWN = 200;

export function EventsView({ events }: { readonly events: ReadonlySignal<readonly StreamEvent[]> | undefined }): View {
  const all = events?.value ?? [];
  if (all.length === 0) return html`<p class="wide hint">The events of a stream stand here as they come.</p>`;
  const before = Math.max(0, all.length - MAX_SHOWN);
  return html`
    <div class="wide">
      <p class="note">${all.length.toLocaleString("en")} events${before > 0 && `, the last ${MAX_SHOWN} of them:`}</p>
      <ol class="events" start=${before} aria-label="Events">
        ${all.slice(before).map((event, index) => html`<${EventView} key=${before + index} ...${event} />`)}
      </ol>
    </div>
  `;
}

/** Returns the data with `delta` first, and without the type that the line already shows. */
function shortened(name: string, data: string, value: Json | undefined): string {
  if (!isObject(value)) return data;
  const { type, sequence_number: _number, delta, ...rest } = value;
  return JSON.stringify({ ...(type !== name && { type }), ...(delta !== undefined && { delta }), ...rest });
}

function EventView({ ms, name, data }: StreamEvent): View {
  const value = parsed(data);
  return html`
    <li>
      <details>
        <summary>
          <span class="ms">${ms.toLocaleString("en")} ms</span> <b>${name}</b>
          <code>${shortened(name, data, value)}</code>
        </summary>
        <pre><${Coloured} text=${value === undefined ? data : JSON.stringify(value, undefined, 2)} /></pre>
      </details>
    </li>
  `;
}
