/** Which edits and variations are answered and which are refused, with the field that is at fault (spec 2.2, 2.3, 8). */

import { describe, expect, it } from "vitest";
import type { ImageOperation } from "../../../src/index.ts";
import { type Mount, sharedStage, type Stage } from "../../hosts/stage.ts";
import { requestIdOf } from "../messages/refusal.ts";
import { type Accepted, ACCEPTED_EDITS, ACCEPTED_VARIATIONS } from "./forms.accepted.ts";
import { REFUSED_EDITS, REFUSED_VARIATIONS, type Refused } from "./forms.refused.ts";
import { invalidField, refusalOf } from "./refusal.ts";
import { edit, editing, type FormFields, vary, varying } from "./requests.ts";

interface Form {
  readonly operation: ImageOperation;
  readonly send: (stage: Stage, fields: FormFields) => Promise<Response>;
  /** A form that is in order, but for some fields. */
  readonly having: (fields: FormFields) => FormFields;
  readonly accepted: readonly Accepted[];
  readonly refused: readonly Refused[];
}

const FORMS: readonly Form[] = [
  { operation: "edit", send: edit, having: editing, accepted: ACCEPTED_EDITS, refused: REFUSED_EDITS },
  { operation: "vary", send: vary, having: varying, accepted: ACCEPTED_VARIATIONS, refused: REFUSED_VARIATIONS },
];

export function formsSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  describe.each(FORMS)("$operation", ({ operation, send, having, accepted, refused }) => {
    it.each(accepted)("answers %s", async (_name, fields, asked) => {
      const response = await send(stage(), fields);
      requestIdOf(response);
      expect(await response.json()).toMatchObject({ created: expect.any(Number), data: expect.any(Array) });
      expect(response.status).toBe(200);
      const { askedForImages: request } = stage().backend;
      expect(request).toMatchObject({ operation, ...asked });
      expect(request.prompt).toBe(operation === "edit" ? fields["prompt"] : "");
      expect(request.mask === undefined).toBe(fields["mask"] === undefined);
    });

    it.for(refused)("refuses %s", async ([_name, fields, param, message]) => {
      const before = stage().backend.receivedForImages.length;
      expect(await refusalOf(await send(stage(), fields))).toEqual(invalidField(param, message));
      expect(stage().backend.receivedForImages).toHaveLength(before);
    });

    it("hands on the fields with their types, for a backend that speaks the format", async () => {
      const sent = having({ n: "2", stream: "false", response_format: "null", user: "7", unknown: "7" });
      expect((await send(stage(), sent)).status).toBe(200);
      expect(stage().backend.askedForImages.native).toEqual({
        format: "images",
        body: {
          ...(operation === "edit" && { prompt: "A red hat" }),
          n: 2,
          stream: false,
          response_format: null,
          user: "7",
          unknown: "7",
        },
        betas: [],
      });
    });

    it("knows no model that is not there", async () => {
      expect(await refusalOf(await send(stage(), having({ model: "image-model-4" })))).toEqual({
        status: 404,
        type: "invalid_request_error",
        code: "model_not_found",
        param: "model",
        message: expect.stringContaining("image-model-4"),
      });
    });
  });
}
