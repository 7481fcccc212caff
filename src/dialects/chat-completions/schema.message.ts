/** The messages of a chat-completions request, one schema an object. */

import * as v from "valibot";
import { array, choice, object, shown, textOr, variant } from "../../http/validation.ts";
import { isBase64 } from "../../media/base64.ts";
import { isJsonObject } from "../../model/json.ts";
import { base64, text } from "../shared/schema.parts.ts";
import { unsaid, whole } from "../shared/schema.unsaid.ts";
import { isDataUrl, webOrDataUrl } from "./schema.base.ts";

export const TextPart = object({ type: v.literal("text"), text: v.string() });
export type TextPart = v.InferOutput<typeof TextPart>;

export const ImagePart = object({
  type: v.literal("image_url"),
  image_url: object({
    url: webOrDataUrl,
    // There is no word for a picture as large as it is.
    detail: unsaid(v.nullish(v.picklist(["auto", "low", "high", "original"])), (detail) => detail === "original"),
  }),
});
export type ImagePart = v.InferOutput<typeof ImagePart>;

const AudioPart = object({
  type: v.literal("input_audio"),
  input_audio: object({
    data: base64,
    format: v.pipe(v.string(), v.regex(/^[a-z0-9.+-]{1,32}$/, "must be the name of a format, such as wav or mp3")),
  }),
});
export type AudioPart = v.InferOutput<typeof AudioPart>;

const FilePart = object({
  type: v.literal("file"),
  file: v.pipe(
    object({
      file_data: v.nullish(
        v.pipe(
          v.string(),
          v.check((data) => isDataUrl(data) || isBase64(data), "must be a data: URL of base64, or base64"),
        ),
      ),
      file_id: v.nullish(text),
      filename: v.nullish(v.string()),
    }),
    v.check(({ file_data, file_id }) => (file_data == null) !== (file_id == null), "must hold file_data or file_id"),
  ),
});
export type FilePart = v.InferOutput<typeof FilePart>;

const RefusalPart = object({ type: v.literal("refusal"), refusal: v.string() });

/** A text, or parts of one kind or another. */
const content = <const Part extends v.GenericSchema>(part: Part) =>
  textOr(array(part, ({ input }) => `must be a string or an array, not ${shown(input)}`));

const texts = content(variant([TextPart]));
const name = v.nullish(v.string());

const SystemMessage = object({ role: v.picklist(["system", "developer"]), content: texts, name });
export type SystemMessage = v.InferOutput<typeof SystemMessage>;

const UserMessage = object({
  role: v.literal("user"),
  content: content(variant([TextPart, ImagePart, AudioPart, FilePart])),
  name,
});
export type UserMessage = v.InferOutput<typeof UserMessage>;

const FunctionCall = object({
  type: v.literal("function"),
  id: text,
  function: object({ name: text, arguments: v.string() }),
  // The place of a call is that in its list; clients that have put a stream together send it back.
  index: v.optional(v.unknown()),
});
export type FunctionCall = v.InferOutput<typeof FunctionCall>;

const CustomCall = whole(
  object({
    type: v.literal("custom"),
    id: text,
    custom: whole(object({ name: text, input: v.string() })),
  }),
);
export type ToolCall = FunctionCall | v.InferOutput<typeof CustomCall>;

const AssistantMessage = object({
  role: v.literal("assistant"),
  content: v.nullish(content(variant([TextPart, RefusalPart]))),
  refusal: v.nullish(v.string()),
  // What local servers call the reasoning that they show, and clients of theirs send back.
  reasoning_content: v.nullish(v.string()),
  tool_calls: v.nullish(array(variant([FunctionCall, CustomCall]))),
  name,
});
export type AssistantMessage = v.InferOutput<typeof AssistantMessage>;

const ToolMessage = object({
  role: v.literal("tool"),
  tool_call_id: text,
  // Pictures are beyond the official service's letter; local servers take them, and clients send them.
  content: content(variant([TextPart, ImagePart])),
  // The call tells the tool's name.
  name: v.optional(v.unknown()),
});
export type ToolMessage = v.InferOutput<typeof ToolMessage>;

export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

const BY_ROLE: ReadonlyMap<unknown, v.GenericSchema<unknown, Message>> = new Map<
  unknown,
  v.GenericSchema<unknown, Message>
>([
  ["system", SystemMessage],
  ["developer", SystemMessage],
  ["user", UserMessage],
  ["assistant", AssistantMessage],
  ["tool", ToolMessage],
]);
const noRole = object({ role: v.picklist(Array.from(BY_ROLE.keys(), String)) });

/** A message. Its role decides which fields it may have. */
export const Message: v.GenericSchema<unknown, Message> = choice(
  [SystemMessage, UserMessage, AssistantMessage, ToolMessage],
  (input) => (isJsonObject(input) && BY_ROLE.get(input["role"])) || noRole,
);
