/** Chooses how the demo draws images: with the package sharp, or with plain code if sharp is not installed. */

import { GatewayError } from "../errors.ts";
import type * as drawing from "./drawing.ts";
import { plainPicture } from "./plain.ts";
import { sizeOf, USUAL_SIZE } from "./scene.ts";

type Painter = Pick<typeof drawing, "draw" | "edit" | "vary" | "unfinished" | "isReadable">;

let loaded: Promise<Painter> | undefined;

/** Loads sharp with the first image, because most hosts never ask for images. */
export const painter = (): Promise<Painter> => (loaded ??= import("./drawing.ts").catch(withoutSharp));

function withoutSharp(cause: unknown): Painter {
  if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
  const refuse = async (): Promise<never> => {
    throw new GatewayError(
      "failed_precondition",
      "The demo needs the package sharp for this image: npm install sharp",
      {
        cause,
      },
    );
  };
  return {
    async draw({ size, outputFormat = "image/png", ...scene }) {
      return outputFormat === "image/png" ? plainPicture({ ...scene, ...(sizeOf(size) ?? USUAL_SIZE) }) : refuse();
    },
    edit: refuse,
    vary: refuse,
    unfinished: async (image) => image,
    isReadable: refuse,
  };
}
