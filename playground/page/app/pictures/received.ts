/** Reads the pictures from an answer of the image endpoints. */

import { listAt, parsed, textAt } from "../json.ts";

/** Reads an answer (spec 2.4): decodes embedded pictures, and fetches linked pictures. */
export function receivedFiles(answer: string): Promise<Blob[]> {
  const images = listAt(parsed(answer), "data");
  return Promise.all(
    images.map(async (image) => {
      const base64 = textAt(image, "b64_json");
      return base64 === "" ? fetched(textAt(image, "url")) : decoded(base64);
    }),
  );
}

async function fetched(url: string): Promise<Blob> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`The picture's address answers with status ${response.status}.`);
  return response.blob();
}

function decoded(base64: string): Blob {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}
