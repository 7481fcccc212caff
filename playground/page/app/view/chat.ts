/** The chat: the form of the request, and the call of each format. */

import { formats, wantedFormats } from "../state/draft.ts";
import { Composer } from "./composer.ts";
import { FormatPanel } from "./format-panel.ts";
import { html, type View } from "./html.ts";

export const Chat = (): View => html`
  <div class="workbench">
    <${Composer} />
    <section class="answers" id="answers" aria-label="Answers">
      ${formats.value && wantedFormats().length === 0 && html`<p class="hint">Choose a format to send the prompt in.</p>`}
      ${wantedFormats().map((format) => html`<${FormatPanel} key=${format.id} format=${format} />`)}
    </section>
  </div>
`;
