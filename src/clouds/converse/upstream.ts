/** Converse as an upstream speaks it: the codec of a relay. */

import type { ChatCodec, CodecOptions } from "../../formats/format.ts";
import type { ConvertedFields } from "../../formats/shared/conversions.ts";
import { TOOL_NAMES } from "../../formats/shared/tool-names.ts";
import { AWS_STREAM, decodeAwsError } from "../aws-stream.ts";
import { ConverseDecoder } from "./answer.decode.ts";
import { conversionsOf } from "./conversions.ts";
import { FORMAT, makerOf, modelBehind } from "./models.ts";
import { encodeRequest, type HostFields } from "./request.ts";

export function converseCodec(options: CodecOptions, host: HostFields): ChatCodec {
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const lost: ConvertedFields = new Set();
    const body = encodeRequest(request, options, host, lost);
    const isEmpty = Array.isArray(body["messages"]) && body["messages"].length === 0;
    return {
      path: `/model/${encodeURIComponent(request.model)}/${request.stream ? "converse-stream" : "converse"}`,
      headers: request.stream ? { accept: AWS_STREAM } : {},
      body,
      conversions: conversionsOf(request, isEmpty, lost, options.foreignReasoning === "text"),
    };
  };
  return {
    format: FORMAT,
    toolNames: TOOL_NAMES,
    encodeRequest: encode,
    answerDecoder: (limits, model = "") => new ConverseDecoder(limits, model),
    makerOf,
    count: {
      encode(request) {
        const { body } = encode({ ...request, stream: false });
        const counted = Object.entries(body).filter(([field]) => COUNTED.has(field));
        const path = `/model/${encodeURIComponent(modelBehind(request.model))}/count-tokens`;
        return { path, headers: {}, body: { input: { converse: Object.fromEntries(counted) } } };
      },
      decode: ({ inputTokens }) => inputTokens,
    },
    decodeError: decodeAwsError,
  };
}

/** The fields of a request whose tokens Bedrock counts. */
const COUNTED: ReadonlySet<string> = new Set(["messages", "system", "toolConfig", "additionalModelRequestFields"]);
