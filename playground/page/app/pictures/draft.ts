/** The user's input for a call of the image endpoints. */

export type Action = "draw" | "edit" | "vary";

export interface ImageDraft {
  readonly prompt: string;
  readonly model: string;
  readonly size: string;
  readonly quality: string;
  readonly count: number;
  readonly editPrompt: string;
  readonly editModel: string;
  readonly variations: number;
  /** `url` or `b64_json`. */
  readonly responseFormat: string;
}

/** The sizes and qualities of each drawing model. An empty quality is not sent. */
export const DRAWING_MODELS: Readonly<Record<string, { sizes: readonly string[]; qualities: readonly string[] }>> = {
  "image-model-2": { sizes: ["512x512", "256x256", "1024x1024"], qualities: [] },
  "image-model-3": { sizes: ["1024x1024", "1792x1024", "1024x1792"], qualities: ["standard", "hd"] },
  "image-model-multi": { sizes: ["1024x1024", "1536x1024", "1024x1536"], qualities: ["low", "medium", "high"] },
};

export const EDITING_MODELS = ["image-model-2", "image-model-multi"] as const;

export const FIRST_IMAGE_DRAFT: ImageDraft = {
  prompt: "A quiet harbour at dawn, seen from a lighthouse",
  model: "image-model-2",
  size: "512x512",
  quality: "",
  count: 1,
  editPrompt: "A yellow moon",
  editModel: "image-model-2",
  variations: 2,
  responseFormat: "url",
};
