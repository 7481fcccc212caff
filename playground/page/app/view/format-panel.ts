/** Shows a single format: its live answer, the raw call, and the code. */

import { useSignalEffect } from "@preact/signals";
import type { ChatFormat } from "../formats/format.ts";
import { isRunning } from "../http/exchange.ts";
import type { JsonObject } from "../json.ts";
import { draft } from "../state/draft.ts";
import { keyToShow } from "../state/keys.ts";
import { type Run, runs } from "../state/runs.ts";
import { announce } from "./announcer.ts";
import { AnswerView, PastView, SaidView } from "./answer-view.ts";
import { CallFooter, CallState } from "./call-state.ts";
import { callTabs } from "./call-views.ts";
import { Tabs } from "./controls.ts";
import { EventsView } from "./events-view.ts";
import { Failure } from "./failure.ts";
import { html, type View } from "./html.ts";
import { Listing } from "./listing.ts";

export function FormatPanel({ format }: { readonly format: ChatFormat }): View {
  const run = runs.value[format.id];
  // Show a preview before the first call.
  const [shownDraft, key] = run ? [run.draft, run.key] : [draft.value, keyToShow.value];
  const call = format.request(shownDraft, key.text);
  const sdkCode = format.sdkCode(shownDraft, { apiKey: key.source, baseUrl: location.origin });
  const tabs = [
    { name: "Answer", content: () => html`<${AnswerTab} format=${format} run=${run} body=${call.body} />` },
    { name: "Events", content: () => html`<${EventsView} events=${run?.events} />` },
    ...callTabs({ call, exchange: run?.exchange, sdk: format.sdk, sdkCode }),
  ];
  useEndAnnouncement(format);
  return html`
    <article class="panel" data-format=${format.id} aria-label=${format.name}>
      <header class="panel-head">
        <h3>${format.name}</h3>
        <${CallState} exchange=${run?.exchange} hasFailed=${run?.answer.value.error !== undefined} />
        <code class="path">${call.method} ${call.path}</code>
      </header>
      <${Tabs} label=${`${format.name}: views`} tabs=${tabs} />
      ${
        run &&
        html`
          <${Failure} progress=${run.exchange.progress.value} error=${run.answer.value.error} />
          <${CallFooter} exchange=${run.exchange} answer=${run.answer.value} />
        `
      }
    </article>
  `;
}

interface AnswerTabProps {
  readonly format: ChatFormat;
  readonly run: Run | undefined;
  /** The body of the previewed call. */
  readonly body: JsonObject | undefined;
}

function AnswerTab({ format, run, body }: AnswerTabProps): View {
  const leftOut = format.leftOut(run?.draft ?? draft.value);
  const { past = [] } = run?.draft ?? {};
  return html`
    ${leftOut.length > 0 && html`<p class="note">This format has no ${leftOut.join(", no ")}: it is left out.</p>`}
    ${past.map((turn, index) => html`<${PastView} key=${index} ...${turn} />`)}
    ${run && past.length > 0 && html`<${SaidView} ...${run.draft} />`}
    ${
      run
        ? html`<${AnswerView} answer=${run.answer} progress=${run.exchange.progress} />`
        : html`<p class="hint empty">The answer will stream in here.</p>
            <${Listing} label="What will be sent" hasHeading kind="short" text=${JSON.stringify(body, undefined, 2)} />`
    }
  `;
}

/** Tells a screen reader when the format's call has ended. */
function useEndAnnouncement({ id, name }: ChatFormat): void {
  useSignalEffect(() => {
    const progress = runs.value[id]?.exchange.progress.value;
    if (!progress || isRunning(progress)) return;
    const how =
      progress.phase === "done" && (progress.status ?? 0) >= 400 ? `failed, ${progress.status}` : progress.phase;
    announce(`${name}: ${how}.`);
  });
}
