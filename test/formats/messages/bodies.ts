/** Messages requests for the cases: the smallest request, and requests that differ from it in a few fields. */

export type Body = Readonly<Record<string, unknown>>;

export const MINIMAL: Body = { model: "model-a", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] };

/** The smallest request with other fields; undefined leaves a field out. */
export const having = (fields: Body): Body => ({ ...MINIMAL, ...fields });

/** A request with one message of one block. */
export const withBlock = (block: unknown, role = "user"): Body => having({ messages: [{ role, content: [block] }] });

/** A request whose last message answers a tool call. */
export const withResult = (result: Body): Body =>
  having({
    messages: [
      { role: "user", content: "What is the time?" },
      { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "clock", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", ...result }] },
    ],
  });

export const withImage = (source: unknown): Body => withBlock({ type: "image", source });

export const withDocument = (source: unknown, fields: Body = {}): Body =>
  withBlock({ type: "document", source, ...fields });

export const withTool = (tool: unknown): Body => having({ tools: [tool] });

/** The first eight bytes of every PNG. */
export const PNG = "iVBORw0KGgo=";

export const pngSource: Body = { type: "base64", media_type: "image/png", data: PNG };

export const CLOCK: Body = { name: "clock", input_schema: { type: "object", properties: {} } };

export const COMPUTER: Body = {
  type: "computer_20241022",
  name: "computer",
  display_width_px: 1024,
  display_height_px: 768,
};

/** One character that is two UTF-16 units. */
export const ASTRAL = "𝄞";
