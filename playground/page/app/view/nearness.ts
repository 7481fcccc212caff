/** Shows how similar sentences are, by their vectors. */

import {
  embeddingCall,
  embeddingCode,
  type Embeddings,
  embeddingsIn,
  MAX_SENTENCES,
  nearness,
  sentencesOf,
} from "../nearness/embeddings.ts";
import { keyToShow } from "../state/keys.ts";
import { models } from "../state/models.ts";
import { changeNearness, compare, nearnessDraft, type NearnessRun, nearnessRun } from "../state/nearness.ts";
import { bringIntoView } from "./bring-into-view.ts";
import { CallFooter, CallState } from "./call-state.ts";
import { callTabs } from "./call-views.ts";
import { Field, Tabs } from "./controls.ts";
import { Failure } from "./failure.ts";
import { html, type View } from "./html.ts";

export const Nearness = (): View => html`
  <div class="workbench">
    <${Sentences} />
    <section class="answers" id="nearness-answer" aria-label="Nearness">
      <${NearnessPanel} />
    </section>
  </div>
`;

function onSubmit(event: SubmitEvent): void {
  event.preventDefault();
  compare();
  bringIntoView("nearness-answer");
}

function Sentences(): View {
  const { model, dimensions, text } = nearnessDraft.value;
  const { length } = sentencesOf(nearnessDraft.value);
  const isRight = length >= 2 && length <= MAX_SENTENCES;
  return html`
    <form class="composer card" aria-label="Sentences" novalidate onSubmit=${onSubmit}>
      <div class="field">
        <label for="sentences">Sentences, one on each line</label>
        <textarea
          id="sentences"
          rows="10"
          aria-invalid=${!isRight}
          aria-describedby="sentences-hint"
          value=${text}
          onInput=${(event: Event) => changeNearness({ text: (event.currentTarget as HTMLTextAreaElement).value })}
        ></textarea>
        <p id="sentences-hint" class=${isRight ? "hint" : "wrong"}>
          ${isRight ? `${length} sentences.` : `Write 2 to ${MAX_SENTENCES} sentences. These are ${length}.`}
        </p>
      </div>
      <div class="pair">
        <${Field}
          label="Model"
          value=${model}
          options=${models.value.embedding}
          onInput=${(model: string) => changeNearness({ model })}
        />
        <${Field}
          label="Dimensions"
          type="number"
          min="1"
          placeholder="the model's own"
          value=${dimensions ?? ""}
          onInput=${(text: string) => changeNearness({ dimensions: text === "" ? undefined : Number(text) })}
        />
      </div>
      <div class="send"><button type="submit" class="primary" disabled=${!isRight}>Compare</button></div>
    </form>
  `;
}

function NearnessPanel(): View {
  const run = nearnessRun.value;
  const { draft, key } = run ?? { draft: nearnessDraft.value, key: keyToShow.value };
  const call = embeddingCall(draft, key.text);
  const sdkCode = embeddingCode(draft, { apiKey: key.source, baseUrl: location.origin });
  const found = run && embeddingsIn(run.exchange.progress.value.text);
  const tabs = [
    { name: "Nearness", content: () => html`<${AnswerTab} run=${run} found=${found} />` },
    ...callTabs({ call, exchange: run?.exchange, sdk: "openai", sdkCode }),
  ];
  const usage: Record<string, number> = found?.inputTokens === undefined ? {} : { input: found.inputTokens };
  return html`
    <article class="panel" aria-label="Embeddings">
      <header class="panel-head">
        <h3>Embeddings</h3>
        <${CallState} exchange=${run?.exchange} />
        <code class="path">${call.method} ${call.path}</code>
      </header>
      <${Tabs} label="Embeddings: views" tabs=${tabs} />
      ${
        run &&
        html`
          <${Failure} progress=${run.exchange.progress.value} />
          <${CallFooter} exchange=${run.exchange} answer=${{ usage }} />
        `
      }
    </article>
  `;
}

interface AnswerTabProps {
  readonly run: NearnessRun | undefined;
  readonly found: Embeddings | undefined;
}

function AnswerTab({ run, found }: AnswerTabProps): View {
  if (!run) return html`<p class="hint empty">How near the sentences are stands here once they are compared.</p>`;
  return html`
    <div aria-live="polite">
      ${found && html`<${Table} sentences=${sentencesOf(run.draft)} vectors=${found.vectors} />`}
    </div>
  `;
}

function Table({ sentences, vectors }: { readonly sentences: readonly string[] } & Pick<Embeddings, "vectors">): View {
  const all = vectors.map((one) => vectors.map((other) => nearness(one, other)));
  return html`
    <p class="note">
      The cosine of the angle between the vectors, of ${vectors[0]?.length.toLocaleString("en")} numbers each: 1 is the
      same direction, 0 is nothing in common.
    </p>
    <div class="nearness" tabindex="0" role="region" aria-label="Table of nearness">
      <table>
        <thead>
          <tr>
            <td></td>
            ${sentences.map((_, index) => html`<th scope="col">${index + 1}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${sentences.map(
            (sentence, row) => html`
              <tr>
                <th scope="row"><span>${row + 1}</span> ${sentence}</th>
                ${all[row]?.map((near, column) => html`<${Cell} near=${near} isSame=${row === column} />`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

const Cell = ({ near, isSame }: { readonly near: number; readonly isSame: boolean }): View => html`
  <td class=${isSame ? "is-same" : ""} style=${{ "--near": `${Math.round(45 * Math.max(0, near))}%` }}>
    ${near.toFixed(2)}
  </td>
`;
