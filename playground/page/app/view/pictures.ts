/** The pictures: draw one, paint a mask on it and edit it, make variations of it. */

import { EDITING_MODELS, DRAWING_MODELS } from "../pictures/draft.ts";
import {
  action,
  addPicture,
  callImages,
  changeImageDraft,
  chosen,
  imageDraft,
  mask,
  pictureProblem,
} from "../state/pictures.ts";
import { bringIntoView } from "./bring-into-view.ts";
import { Choice, Field } from "./controls.ts";
import { Gallery } from "./gallery.ts";
import { html, type View } from "./html.ts";
import { ImagePanel } from "./image-panel.ts";
import { MaskEditor } from "./mask-editor.ts";

export const Pictures = (): View => html`
  <div class="workbench">
    <div class="composer is-split">
      <${Drawing} />
      <${Editing} />
      <${Varying} />
    </div>
    <div class="studio">
      <section class="stage" id="stage" aria-label="The chosen picture">
        ${
          chosen.value
            ? html`<${MaskEditor} key=${chosen.value.id} picture=${chosen.value} />`
            : html`<p class="hint empty">
                Draw a picture, or open one of your own. Then paint on it what is to be edited.
              </p>`
        }
        ${pictureProblem.value !== "" && html`<p class="wrong" role="alert">${pictureProblem.value}</p>`}
        <${Gallery} />
      </section>
      <${ImagePanel} />
    </div>
  </div>
`;

const onSubmit =
  (next: "draw" | "edit" | "vary") =>
  (event: SubmitEvent): void => {
    event.preventDefault();
    void callImages(next);
    bringIntoView("stage");
  };

/** Changes the model, and chooses its first size and quality. */
function chooseModel(model: string): void {
  const { sizes: [size = ""] = [], qualities: [quality = ""] = [] } = DRAWING_MODELS[model] ?? {};
  changeImageDraft({ model, size, quality });
}

function Drawing(): View {
  const { prompt, model, size, quality, count, responseFormat } = imageDraft.value;
  const { sizes = [], qualities = [] } = DRAWING_MODELS[model] ?? {};
  return html`
    <form class="card" aria-label="Draw" onSubmit=${onSubmit("draw")} onFocusIn=${() => (action.value = "draw")}>
      <h3>Draw</h3>
      <${Field} label="What to draw" value=${prompt} onInput=${(prompt: string) => changeImageDraft({ prompt })} />
      <div class="pair">
        <${Choice} label="Model" value=${model} options=${Object.keys(DRAWING_MODELS)} onChange=${chooseModel} />
        <${Choice}
          label="Size"
          value=${size}
          options=${sizes}
          onChange=${(size: string) => changeImageDraft({ size })}
        />
        ${
          qualities.length > 0 &&
          html`<${Choice}
            label="Quality"
            value=${quality}
            options=${qualities}
            onChange=${(quality: string) => changeImageDraft({ quality })}
          />`
        }
        <${Field}
          label="How many"
          type="number"
          min="1"
          max="10"
          value=${count}
          onInput=${(text: string) => changeImageDraft({ count: Number(text) })}
        />
        <${Choice}
          label="Answer with"
          value=${responseFormat}
          options=${["url", "b64_json"]}
          onChange=${(responseFormat: string) => changeImageDraft({ responseFormat })}
        />
      </div>
      <div class="send">
        <button type="submit" class="primary">Draw</button>
        <${OpenButton} />
      </div>
    </form>
  `;
}

/** Adds a picture of the user. */
const OpenButton = (): View => html`
  <label class="button open">
    Open your own
    <input type="file" class="unseen" accept="image/png,image/jpeg,image/webp" onChange=${openFile} />
  </label>
`;

function openFile(event: Event): void {
  const input = event.currentTarget as HTMLInputElement;
  const [file] = input.files ?? [];
  if (file) void addPicture(file, `Your ${file.name}`);
  // Clear the input, so that the user can open the same file again.
  input.value = "";
}

function Editing(): View {
  const { editPrompt, editModel } = imageDraft.value;
  const share = mask.value?.share;
  return html`
    <form class="card" aria-label="Edit" onSubmit=${onSubmit("edit")} onFocusIn=${() => (action.value = "edit")}>
      <h3>Edit</h3>
      <p class="hint" role="status">
        ${
          share === undefined
            ? "Paint on the picture: only what is painted is drawn anew."
            : `The mask covers ${share < 0.01 ? "less than 1" : Math.round(100 * share)}% of the picture.`
        }
      </p>
      <${Field}
        label="What to draw there"
        value=${editPrompt}
        onInput=${(editPrompt: string) => changeImageDraft({ editPrompt })}
      />
      <${Choice}
        label="Model"
        value=${editModel}
        options=${EDITING_MODELS}
        onChange=${(editModel: string) => changeImageDraft({ editModel })}
      />
      <div class="send"><button type="submit" class="primary" disabled=${!chosen.value}>Edit picture</button></div>
    </form>
  `;
}

const Varying = (): View => html`
  <form class="card" aria-label="Vary" onSubmit=${onSubmit("vary")} onFocusIn=${() => (action.value = "vary")}>
    <h3>Vary</h3>
    <${Field}
      label="How many variations"
      type="number"
      min="1"
      max="10"
      value=${imageDraft.value.variations}
      onInput=${(text: string) => changeImageDraft({ variations: Number(text) })}
    />
    <div class="send"><button type="submit" class="primary" disabled=${!chosen.value}>Make variations</button></div>
  </form>
`;
