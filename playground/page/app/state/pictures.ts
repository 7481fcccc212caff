/** The pictures so far, their masks, and the last call of the image endpoints. */

import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type Exchange, startExchange } from "../http/exchange.ts";
import type { ShownKey } from "../http/secret.ts";
import { imageCall, type ImageFiles } from "../pictures/calls.ts";
import { type Action, FIRST_IMAGE_DRAFT, type ImageDraft } from "../pictures/draft.ts";
import { maskOf, type MaskStep, type PaintedMask } from "../pictures/mask.ts";
import { receivedFiles } from "../pictures/received.ts";
import { apiKey, keyToShow } from "./keys.ts";
import { watchQuota } from "./quota.ts";

export interface Picture {
  readonly id: number;
  /** The origin of the picture, such as its prompt. */
  readonly about: string;
  readonly file: File;
  /** An address of the file that works only in this page. */
  readonly src: string;
  readonly width: number;
  readonly height: number;
  readonly maskSteps: Signal<readonly MaskStep[]>;
}

export interface ImageRun {
  readonly action: Action;
  readonly draft: ImageDraft;
  readonly files: ImageFiles;
  readonly key: ShownKey;
  readonly exchange: Exchange;
}

export const imageDraft: Signal<ImageDraft> = signal(FIRST_IMAGE_DRAFT);
export const changeImageDraft = (changes: Partial<ImageDraft>): void => {
  imageDraft.value = { ...imageDraft.peek(), ...changes };
};

/** The next action. The page shows a preview of its call. */
export const action: Signal<Action> = signal("draw");
export const pictures: Signal<readonly Picture[]> = signal([]);
export const chosenId: Signal<number | undefined> = signal(undefined);
export const imageRun: Signal<ImageRun | undefined> = signal(undefined);
/** The reason why the last picture could not be added, or empty. */
export const pictureProblem: Signal<string> = signal("");

export const chosen: ReadonlySignal<Picture | undefined> = computed(() =>
  pictures.value.find(({ id }) => id === chosenId.value),
);

/** The mask of the chosen picture, ready to be sent. */
export const mask: Signal<PaintedMask | undefined> = signal(undefined);

effect(() => {
  const picture = chosen.value;
  const steps = picture?.maskSteps.value ?? [];
  if (!picture || steps.length === 0) mask.value = undefined;
  else
    void maskOf(steps, picture).then((made) => {
      // The user may have painted more in the meantime.
      if (chosen.peek() === picture && picture.maskSteps.peek() === steps) mask.value = made;
    });
});

export const filesToSend = (): ImageFiles => ({ image: chosen.value?.file, mask: mask.value?.file });

/** Adds and chooses a picture. */
export async function addPicture(blob: Blob, about: string): Promise<void> {
  const id = (pictures.peek().at(-1)?.id ?? 0) + 1;
  const extension = blob.type.slice("image/".length) || "png";
  const file = new File([blob], `picture-${id}.${extension}`, { type: blob.type });
  try {
    const bitmap = await createImageBitmap(file);
    const { width, height } = bitmap;
    bitmap.close();
    const picture = { id, about, file, src: URL.createObjectURL(file), width, height, maskSteps: signal([]) };
    pictures.value = [...pictures.peek(), picture];
    chosenId.value = id;
    pictureProblem.value = "";
  } catch {
    pictureProblem.value = "The browser cannot read this picture.";
  }
}

/** Calls an image endpoint, and adds the pictures of the answer. */
export async function callImages(next: Action): Promise<void> {
  imageRun.peek()?.exchange.stop();
  action.value = next;
  const [draft, picture] = [imageDraft.peek(), chosen.peek()];
  // The signal `mask` may lack the last stroke.
  const made = picture && next === "edit" ? await maskOf(picture.maskSteps.peek(), picture) : undefined;
  const files = { image: picture?.file, mask: made?.file };
  const exchange = startExchange(imageCall(next, draft, files, apiKey.peek()));
  imageRun.value = { action: next, draft, files, key: keyToShow.peek(), exchange };
  watchQuota(exchange.ended);
  void receive(exchange, aboutOf(next, draft));
}

async function receive({ ended }: Exchange, about: string): Promise<void> {
  const { phase, status, text } = await ended;
  if (phase !== "done" || status !== 200) return;
  try {
    for (const blob of await receivedFiles(text)) await addPicture(blob, about);
  } catch (error) {
    pictureProblem.value = error instanceof Error ? error.message : String(error);
  }
}

const aboutOf = (action: Action, { prompt, editPrompt }: ImageDraft): string =>
  ({ draw: prompt, edit: `Edited: ${editPrompt}`, vary: "A variation" })[action];
