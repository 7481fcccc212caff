/** Shows the last call of the image endpoints, or a preview of the next call. */

import { listAt, objectAt, parsed } from "../json.ts";
import { imageCall, imageCode } from "../pictures/calls.ts";
import { keyToShow } from "../state/keys.ts";
import { action, filesToSend, imageDraft, type ImageRun, imageRun } from "../state/pictures.ts";
import { CallFooter, CallState } from "./call-state.ts";
import { callTabs } from "./call-views.ts";
import { Tabs } from "./controls.ts";
import { Failure } from "./failure.ts";
import { html, type View } from "./html.ts";

const NAMES = { draw: "Draw a picture", edit: "Edit a picture", vary: "Make variations" } as const;

export function ImagePanel(): View {
  const run = imageRun.value?.action === action.value ? imageRun.value : undefined;
  const { draft, files, key } = run ?? { draft: imageDraft.value, files: filesToSend(), key: keyToShow.value };
  const call = imageCall(action.value, draft, files, key.text);
  const sdkCode = imageCode(action.value, draft, files, { apiKey: key.source, baseUrl: location.origin });
  const tabs = [
    { name: "Answer", content: () => html`<${AnswerTab} run=${run} />` },
    ...callTabs({ call, exchange: run?.exchange, sdk: "openai", sdkCode }),
  ];
  return html`
    <article class="panel" aria-label=${NAMES[action.value]}>
      <header class="panel-head">
        <h3>${NAMES[action.value]}</h3>
        <${CallState} exchange=${run?.exchange} />
        <code class="path">${call.method} ${call.path}</code>
      </header>
      <${Tabs} label="Image call: views" tabs=${tabs} />
      ${
        run &&
        html`
          <${Failure} progress=${run.exchange.progress.value} />
          <${CallFooter} exchange=${run.exchange} answer=${{ usage: usageOf(run) }} />
        `
      }
    </article>
  `;
}

function AnswerTab({ run }: { readonly run: ImageRun | undefined }): View {
  if (!run) return html`<p class="hint empty">The answer stands here once the call is made.</p>`;
  const progress = run.exchange.progress.value;
  const { length } = listAt(parsed(progress.text), "data");
  return html`
    <div aria-live="polite">
      ${length > 0 && html`<p>${length === 1 ? "One picture" : `${length} pictures`} came.</p>`}
      ${progress.phase === "stopped" && html`<p class="note">You stopped this call.</p>`}
    </div>
  `;
}

/** Only the multi model counts tokens (spec 2.4). */
const usageOf = ({ exchange }: ImageRun): Record<string, number> => {
  const usage = objectAt(parsed(exchange.progress.value.text), "usage");
  const counts = { input: usage["input_tokens"], output: usage["output_tokens"] };
  return Object.fromEntries(
    Object.entries(counts).filter((entry): entry is [string, number] => typeof entry[1] === "number"),
  );
};
