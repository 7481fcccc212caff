/** snake_case, as curl and the Python client write it, for every field of the format and for none of the user's. */

import { expect, it } from "vitest";
import { ask, say, textOf, type Url } from "./socket.ts";

/** A PNG of one pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WEATHER = { type: "OBJECT", properties: { city_name: { type: "STRING" } }, required: ["city_name"] };

export function spellingSuite(url: Url): void {
  it("is taken for every field, as curl and the Python client write it", async () => {
    const answer = await ask(url(), {
      system_instruction: { parts: [{ text: "Be brief" }] },
      contents: [
        { role: "user", parts: [{ text: "The weather?" }] },
        {
          role: "model",
          parts: [
            { function_call: { id: "1", name: "get_weather", args: { city_name: "Oslo" } }, thought_signature: "c2ln" },
          ],
        },
        {
          role: "user",
          parts: [
            { function_response: { id: "1", name: "get_weather", response: { mime_type: "kept", topP: 1 } } },
            { inline_data: { mime_type: "image/png", data: PIXEL } },
            { executable_code: { language: "PYTHON", code: "1" } },
            { code_execution_result: { outcome: "OUTCOME_OK", output: "1" } },
            { file_data: { mime_type: "image/png", file_uri: "https://a.example/a.png" } },
          ],
        },
      ],
      tools: [{ function_declarations: [{ name: "get_weather", parameters: WEATHER }] }, { code_execution: {} }],
      tool_config: { function_calling_config: { mode: "NONE" } },
      safety_settings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_ONLY_HIGH" }],
      generation_config: {
        stop_sequences: ["never"],
        candidate_count: 1,
        max_output_tokens: 500,
        top_p: 0.5,
        top_k: 10,
        presence_penalty: 0,
        frequency_penalty: 0,
        response_logprobs: true,
        enable_enhanced_civic_answers: false,
        response_modalities: ["TEXT"],
        speech_config: { voice_config: { prebuilt_voice_config: { voice_name: "Kore" } }, language_code: "en-US" },
        thinking_config: { include_thoughts: true, thinking_budget: 100 },
        media_resolution: "MEDIA_RESOLUTION_LOW",
      },
    });
    expect(answer).toMatchObject({ status: 200 });
    const [thought, said] = answer.candidates?.[0]?.content?.parts ?? [];
    expect(thought).toMatchObject({ thought: true });
    expect(said?.text).toBe(
      'The tool get_weather answered: {"mime_type":"kept","topP":1}. I was shown an image (image/png, 1 × 1 pixels). I was shown an image at https://a.example/a.png.',
    );
    expect(answer.candidates?.[0]).toMatchObject({ safetyRatings: [{}], logprobsResult: {} });
    expect(answer).toMatchObject({
      usageMetadata: {
        promptTokensDetails: expect.arrayContaining([{ modality: "IMAGE", tokenCount: 128 }]) as unknown,
      },
    });
  });

  it("is taken of schemas, whose own names stay as they are", async () => {
    const answer = await ask(
      url(),
      say("Tell me", {
        generation_config: {
          response_mime_type: "application/json",
          response_schema: {
            type: "OBJECT",
            properties: {
              min_items: { type: "array", min_items: 2, max_items: 2, items: { type: "BOOLEAN" } },
              maxItems: { type: "boolean" },
            },
            required: ["min_items", "maxItems"],
            property_ordering: ["maxItems", "min_items"],
          },
        },
      }),
    );
    const made = JSON.parse(textOf([answer])) as { min_items: boolean[] };
    expect(Object.keys(made)).toEqual(["maxItems", "min_items"]);
    expect(made.min_items).toHaveLength(2);
  });

  it("is how an error names what was written so", async () => {
    const { error } = await ask(url(), say("Hi", { generation_config: { max_output_tokens: -1 } }));
    expect(error?.message).toMatch(/^generation_config\.max_output_tokens:/);
    expect(error?.details).toMatchObject([{ fieldViolations: [{ field: "generation_config.max_output_tokens" }] }]);
  });
}
