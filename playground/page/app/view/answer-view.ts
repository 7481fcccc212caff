/** Shows an answer while it arrives: thoughts, text, tool calls, code and its results. */

import type { ReadonlySignal } from "@preact/signals";
import type { Answer, Block } from "../formats/answer.ts";
import type { PastTurn, Said } from "../formats/draft.ts";
import { isRunning, type Progress } from "../http/exchange.ts";
import { parsed } from "../json.ts";
import { Coloured } from "./coloured.ts";
import { html, type View } from "./html.ts";

interface AnswerViewProps {
  readonly answer: ReadonlySignal<Answer>;
  readonly progress: ReadonlySignal<Progress>;
}

export function AnswerView({ answer, progress }: AnswerViewProps): View {
  const { blocks } = answer.value;
  const now = progress.value;
  const isLive = isRunning(now);
  return html`
    <div class=${`answer ${isLive ? "is-live" : ""}`} aria-live="polite" aria-busy=${isLive}>
      ${blocks.map((block, index) => html`<${BlockView} key=${index} block=${block} />`)}
      ${isLive && html`<span class="cursor" aria-hidden="true"></span>`}
    </div>
    ${now.phase === "stopped" && html`<p class="note">You stopped this call. It is charged for what was generated.</p>`}
  `;
}

/** Shows a completed turn: the prompt or the results, and the answer. */
export const PastView = ({ prompt, results, answer }: PastTurn): View => html`
  <${SaidView} prompt=${prompt} results=${results} />
  <div class="answer is-past">
    ${answer.blocks.map((block, index) => html`<${BlockView} key=${index} block=${block} />`)}
  </div>
`;

export const SaidView = ({ prompt, results }: Said): View => html`
  <div class="said">
    <h4>You</h4>
    ${results.map(({ name, text }) => html`<p>Result of <code>${name}</code>: ${text}</p>`)}
    ${prompt !== "" && html`<p>${prompt}</p>`}
  </div>
`;

function BlockView({ block }: { readonly block: Block }): View {
  // Some blocks consist only of a signature.
  if (block.text === "" && (block.type === "text" || block.type === "thinking")) return null;
  switch (block.type) {
    case "text":
      return html`<${TextBlock} text=${block.text} />`;
    case "thinking":
      return html`<div class="block thinking">
        <h4>Thinking</h4>
        <p>${block.text}</p>
      </div>`;
    case "tool-call":
      return html`<div class="block">
        <h4>Tool call <code>${block.name}</code></h4>
        <pre><${Coloured} text=${block.text} /></pre>
      </div>`;
    case "code":
      return html`<div class="block">
        <h4>Python</h4>
        <pre><code>${block.text}</code></pre>
      </div>`;
    default:
      return html`<div class="block">
        <h4>Result <code>${block.outcome}</code></h4>
        <pre><code>${block.text}</code></pre>
      </div>`;
  }
}

/** Formats complete JSON. Shows any other text unchanged. */
function TextBlock({ text }: { readonly text: string }): View {
  const value = text.startsWith("{") || text.startsWith("[") ? parsed(text) : undefined;
  if (value === undefined) return html`<p class="prose">${text}</p>`;
  return html`<div class="block">
    <h4>JSON</h4>
    <pre><${Coloured} text=${JSON.stringify(value, undefined, 2)} /></pre>
  </div>`;
}
