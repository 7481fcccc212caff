/** An image answer as the `during` of hooks sees it. */

import { IMAGE, type ImageAnswerEvent } from "../../model/image.ts";
import type { HookEvent } from "../../ports/hook.ts";
import type { HookFinish, Output, OutputKind } from "../kind.ts";

/** The output of images. Hooks may leave images out. */
export const imageOutput: OutputKind<ImageAnswerEvent> = { kind: IMAGE, begin: () => new ImageOutput() };

class ImageOutput implements Output<ImageAnswerEvent> {
  /** The bytes that have come. A finished image may be stored under its address already, so no hook can change its bytes. */
  readonly #drawn = new WeakMap<Uint8Array, { readonly type: string; readonly mediaType: string }>();

  plain(event: ImageAnswerEvent): readonly ImageAnswerEvent[] {
    if (event.type === "image" || event.type === "partial-image") this.#drawn.set(event.bytes, event);
    return [event];
  }

  finishFor(finish: HookFinish): HookFinish {
    return finish;
  }

  wrong(event: HookEvent): string | undefined {
    const { bytes, revisedPrompt, ...image } = event as Partial<Extract<ImageAnswerEvent, { type: "image" }>>;
    const drawn = bytes && this.#drawn.get(bytes);
    if (!drawn) return "a hook can leave out an image, but not make one";
    const own = drawn as unknown as Readonly<Record<string, unknown>>;
    const isSame = Object.entries(image).every(([name, value]) => own[name] === value) && event.type === drawn.type;
    if (isSame && (revisedPrompt === undefined || typeof revisedPrompt === "string")) return undefined;
    return "only the revisedPrompt of an image can be changed";
  }

  finished(finish: HookFinish): HookFinish {
    return finish;
  }

  shown(event: HookEvent): HookEvent {
    return event;
  }
}
