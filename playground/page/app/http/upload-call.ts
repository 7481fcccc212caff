/** Makes a call that uploads a form. Only XMLHttpRequest reports the progress of an upload. */

import { type ApiCall, formData } from "./call.ts";
import type { Listener } from "./listener.ts";

export function uploadCall(call: ApiCall, signal: AbortSignal, listener: Listener): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let read = 0;
    const take = (): void => {
      const text = request.responseText.slice(read);
      read += text.length;
      if (text !== "") listener.onText(text);
    };
    request.upload.addEventListener("progress", ({ lengthComputable, loaded, total }) => {
      if (lengthComputable) listener.onUpload(loaded / total);
    });
    request.addEventListener("progress", take);
    request.addEventListener("readystatechange", () => {
      if (request.readyState === XMLHttpRequest.HEADERS_RECEIVED)
        listener.onHead(request.status, headersOf(request.getAllResponseHeaders()));
    });
    request.addEventListener("load", () => {
      take();
      resolve();
    });
    request.addEventListener("error", () => reject(new TypeError("The connection broke.")));
    request.addEventListener("abort", () => reject(new DOMException("The call was stopped.", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.open(call.method, call.path);
    for (const [name, value] of Object.entries(call.headers)) request.setRequestHeader(name, value);
    request.send(formData(call.form ?? []));
  });
}

/** Parses the headers from the text that XMLHttpRequest returns. */
const headersOf = (text: string): [string, string][] =>
  text
    .split("\r\n")
    .filter((line) => line !== "")
    .map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
