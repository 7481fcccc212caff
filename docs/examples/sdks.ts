// sdks.ts
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

const address = process.env["BASE_URL"] ?? "http://127.0.0.1:3000";
const apiKey = "sk-team-a";

const anthropic = new Anthropic({ apiKey, baseURL: address });
const message = await anthropic.messages.create({
  model: "any",
  max_tokens: 100,
  messages: [{ role: "user", content: "Hello" }],
});
console.log(message.content[0]?.type === "text" && message.content[0].text);

const google = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: address } });
const content = await google.models.generateContent({ model: "any", contents: "Hello" });
console.log(content.text);

const openai = new OpenAI({ apiKey, baseURL: `${address}/v1` });
const completion = await openai.chat.completions.create({
  model: "any",
  messages: [{ role: "user", content: "Hello" }],
});
console.log(completion.choices[0]?.message.content);
