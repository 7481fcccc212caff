/** The form to compose and send a chat request. */

import { type ChatDraft, type Effort, EFFORTS } from "../formats/draft.ts";
import { parsed } from "../json.ts";
import { changeDraft, draft, FIRST_SCHEMA, formats, PLAIN, unwanted, wantedFormats, weather } from "../state/draft.ts";
import { type Example, EXAMPLES, HARD_CASES } from "../state/examples.ts";
import { models } from "../state/models.ts";
import { conversations, followUp, isAnyRunning, openCalls, send, stopAll } from "../state/runs.ts";
import { bringIntoView } from "./bring-into-view.ts";
import { Choice, Field, Switch } from "./controls.ts";
import { html, type View } from "./html.ts";

const isReady = ({ prompt, schema }: ChatDraft): boolean =>
  prompt.trim() !== "" && (schema === undefined || parsed(schema) !== undefined) && wantedFormats().length > 0;

function sendIfReady(): void {
  if (!isReady(draft.value)) return;
  send();
  bringIntoView("answers");
}

/** Continues the conversations with the prompt, or only with the results of their calls. */
function goOn(prompt: string): void {
  followUp(prompt);
  bringIntoView("answers");
}

function onKeyDown(event: KeyboardEvent): void {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sendIfReady();
  else if (event.key === "Escape") stopAll();
  else return;
  event.preventDefault();
}

function onSubmit(event: SubmitEvent): void {
  event.preventDefault();
  sendIfReady();
}

export function Composer(): View {
  // Send numbers out of range, so that the user sees the gateway's error.
  return html`
    <form class="composer card" aria-label="Request" novalidate onSubmit=${onSubmit} onKeyDown=${onKeyDown}>
      <div class="field">
        <div class="label-row">
          <label for="prompt">Prompt</label>
          <span class="hint keys"><kbd>Ctrl</kbd> <kbd>Enter</kbd> sends, <kbd>Esc</kbd> stops</span>
        </div>
        <textarea
          id="prompt"
          rows="3"
          value=${draft.value.prompt}
          onInput=${(event: Event) => changeDraft({ prompt: (event.currentTarget as HTMLTextAreaElement).value })}
        ></textarea>
      </div>
      <${Wanted} />
      <div class="send">
        <button type="submit" class="primary" disabled=${!isReady(draft.value)}>
          ${wantedFormats().length > 1 ? `Send in ${wantedFormats().length} formats` : "Send"}
        </button>
        <button
          type="button"
          title="The prompt as the next turn of each conversation"
          disabled=${!isReady(draft.value) || conversations().length === 0}
          onClick=${() => goOn(draft.value.prompt)}
        >
          Follow up
        </button>
        <button type="button" disabled=${!isAnyRunning()} onClick=${stopAll}>Stop</button>
      </div>
      <${OpenCalls} />
      <${Examples} name="Try" examples=${EXAMPLES} />
      <${Examples} name="Hard cases" examples=${HARD_CASES} />
      <${Options} />
    </form>
  `;
}

/** Sends results for the open calls of all conversations. */
function OpenCalls(): View {
  const { length } = conversations().filter(({ past }) => openCalls(past).length > 0);
  if (length === 0 || isAnyRunning()) return null;
  return html`
    <div class="open-calls">
      <${Field}
        label="The weather tool answers"
        value=${weather.value}
        onInput=${(text: string) => (weather.value = text)}
      />
      <button type="button" onClick=${() => goOn("")}>Send the result</button>
    </div>
  `;
}

/** Chooses the formats to send the prompt in. */
const Wanted = (): View => html`
  <fieldset class="wanted">
    <legend>Formats</legend>
    ${(formats.value ?? []).map(({ id, name }) => {
      const change = (isWanted: boolean): void => {
        const others = new Set(unwanted.peek());
        if (isWanted) others.delete(id);
        else others.add(id);
        unwanted.value = others;
      };
      return html`<${Switch} label=${name} isOn=${!unwanted.value.has(id)} onChange=${change} />`;
    })}
  </fieldset>
`;

function tryExample(example: Example): void {
  draft.value = { ...PLAIN, ...example.draft };
  sendIfReady();
}

function Examples({ name, examples }: { readonly name: string; readonly examples: readonly Example[] }): View {
  return html`
    <div class="examples" role="group" aria-label=${name}>
      <h2>${name}</h2>
      ${examples.map(
        (example) =>
          html`<button type="button" class="chip" title=${example.about} onClick=${() => tryExample(example)}>
            ${example.name}
          </button>`,
      )}
    </div>
  `;
}

function Options(): View {
  const { model, system, maxTokens, temperature, stream, thinking, tools, schema, codeExecution } = draft.value;
  return html`
    <fieldset class="options">
      <legend>Options</legend>
      <div class="switches">
        <${Switch} label="Stream" isOn=${stream} onChange=${(stream: boolean) => changeDraft({ stream })} />
        <${Switch} label="Weather tool" isOn=${tools} onChange=${(tools: boolean) => changeDraft({ tools })} />
        <${Switch}
          label="Code execution"
          isOn=${codeExecution}
          onChange=${(codeExecution: boolean) => changeDraft({ codeExecution })}
        />
        <${Switch}
          label="JSON Schema"
          isOn=${schema !== undefined}
          onChange=${(isOn: boolean) => changeDraft({ schema: isOn ? FIRST_SCHEMA : undefined })}
        />
      </div>
      ${schema !== undefined && html`<${SchemaField} schema=${schema} />`}
      <div class="pair">
        <${Field}
          label="Model"
          value=${model}
          options=${models.value.chat}
          onInput=${(model: string) => changeDraft({ model })}
        />
        <${Choice}
          label="Thinking"
          value=${thinking ?? "off"}
          options=${["off", ...EFFORTS]}
          onChange=${(effort: string) => changeDraft({ thinking: effort === "off" ? undefined : (effort as Effort) })}
        />
        <${Field}
          label="Temperature"
          type="number"
          min="0"
          max="2"
          step="0.1"
          placeholder="the model's own"
          value=${temperature ?? ""}
          onInput=${(text: string) => changeDraft({ temperature: text === "" ? undefined : Number(text) })}
        />
        <${Field}
          label="Max tokens"
          type="number"
          min="1"
          value=${maxTokens}
          onInput=${(text: string) => changeDraft({ maxTokens: Number(text) })}
        />
      </div>
      <${Field} label="System prompt" value=${system} onInput=${(system: string) => changeDraft({ system })} />
    </fieldset>
  `;
}

function SchemaField({ schema }: { readonly schema: string }): View {
  const isWrong = parsed(schema) === undefined;
  return html`
    <div class="field">
      <label for="schema">Schema of the answer</label>
      <textarea
        id="schema"
        class="code"
        rows="8"
        spellcheck="false"
        aria-invalid=${isWrong}
        aria-describedby=${isWrong ? "schema-wrong" : undefined}
        value=${schema}
        onInput=${(event: Event) => changeDraft({ schema: (event.currentTarget as HTMLTextAreaElement).value })}
      ></textarea>
      ${isWrong && html`<p id="schema-wrong" class="wrong">This is not JSON yet.</p>`}
    </div>
  `;
}
