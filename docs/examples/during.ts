// during.ts
import { withDuring } from "polygate/hooks";

// Ask your own service here.
const isHarmful = async (text: string): Promise<boolean> => text.includes("harmful");

const textOf = (event: object): string => ("text" in event && typeof event.text === "string" ? event.text : "");

/** Shows the answer sentence by sentence, and ends it before a harmful one. */
export const bySentence = withDuring({
  async during(event, _call, held) {
    if (event.type !== "text-delta" && event.type !== "finish") return undefined;
    if (event.type === "text-delta" && !/[.!?]\s*$/.test(event.text)) return "hold";
    const sentence = [...held, event].map(textOf).join("");
    if (!(await isHarmful(sentence))) return undefined;
    return { show: [{ type: "text-delta", text: "I cannot help with that." }], end: "refusal" };
  },
});
