/** Generate-content requests to make cases from: the smallest one, and one that differs from it in what a case is about. */

export type Body = Readonly<Record<string, unknown>>;

export const MINIMAL: Body = { contents: [{ role: "user", parts: [{ text: "Hi" }] }] };

/** The smallest request with other fields; undefined leaves one out. */
export const having = (fields: Body): Body => ({ ...MINIMAL, ...fields });

/** A request with a generation config. */
export const configured = (generationConfig: unknown): Body => having({ generationConfig });

/** A request whose only turn is of one part. */
export const withPart = (part: unknown, role = "user"): Body => having({ contents: [{ role, parts: [part] }] });

/** A request whose last turn answers a function call. */
export const withResponse = (functionResponse: unknown, call: Body = {}): Body =>
  having({
    contents: [
      { role: "user", parts: [{ text: "What is the time?" }] },
      { role: "model", parts: [{ functionCall: { name: "clock", args: {}, ...call } }] },
      { role: "user", parts: [{ functionResponse }] },
    ],
  });

export const withData = (mimeType: unknown, data: unknown = PNG): Body => withPart({ inlineData: { mimeType, data } });

export const withFile = (mimeType: unknown, fileUri: unknown = "https://example.com/a.png"): Body =>
  withPart({ fileData: { mimeType, fileUri } });

export const CLOCK: Body = { name: "clock", parameters: { type: "OBJECT", properties: { zone: { type: "STRING" } } } };

/** A request with one function, but for some of its fields. */
export const withFunction = (fields: Body): Body => withTool({ functionDeclarations: [{ ...CLOCK, ...fields }] });

export const withTool = (tool: unknown): Body => having({ tools: [tool] });

/** A request with two functions, `clock` and `ping`, and how they may be called. */
export const calling = (functionCallingConfig: unknown): Body =>
  having({
    tools: [{ functionDeclarations: [CLOCK, { name: "ping" }] }],
    toolConfig: { functionCallingConfig },
  });

/** A request for JSON of a schema. */
export const withSchema = (responseSchema: unknown, more: Body = {}): Body =>
  configured({ responseMimeType: "application/json", responseSchema, ...more });

export const speaking = (speechConfig: unknown): Body => configured({ speechConfig });

/** The eight bytes that every PNG begins with. */
export const PNG = "iVBORw0KGgo=";
