/** Shows an error as a client sees it, below the tabs of its panel: whichever tab is open. */

import type { Progress } from "../http/exchange.ts";
import { type JsonObject, isObject, parsed, textAt } from "../json.ts";
import { Coloured } from "./coloured.ts";
import { html, type View } from "./html.ts";

/** The headers that tell a client how to retry, or help support to find the request. */
const TELLING = ["retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id"];

/** An answer with an error status, a connection that broke, or an error in the middle of a stream. */
export function Failure({ progress, error }: { readonly progress: Progress; readonly error?: JsonObject }): View {
  const { phase, status, headers, text, problem } = progress;
  if (error) return html`<${Alert} title="The stream broke off with an error" body=${error} />`;
  if (phase === "broken") return html`<${Alert} title="The connection broke" message=${problem} />`;
  if (status === undefined || status < 400 || phase === "receiving") return null;
  // The headers of all formats carry the same request id.
  const telling = headers.filter(
    ([name, value], index) =>
      TELLING.includes(name) &&
      headers.findIndex(([other, same]) => TELLING.includes(other) && same === value) === index,
  );
  return html`<${Alert} title=${`Status ${status}`} headers=${telling} body=${parsed(text) ?? text} />`;
}

interface AlertProps {
  readonly title: string;
  readonly message?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: unknown;
}

function Alert({ title, message, headers = [], body }: AlertProps): View {
  const said = message ?? messageIn(body);
  return html`
    <div class="failure" role="alert">
      <h4>${title}</h4>
      ${said !== "" && html`<p>${said}</p>`}
      ${
        headers.length > 0 &&
        html`<dl>
          ${headers.map(
            ([name, value]) =>
              html`<div>
                <dt>${name}</dt>
                <dd>${value}</dd>
              </div>`,
          )}
        </dl>`
      }
      ${isObject(body) && html`<pre tabindex="0" role="region" aria-label="Error body"><${Coloured} text=${JSON.stringify(body, undefined, 2)} /></pre>`}
    </div>
  `;
}

function messageIn(body: unknown): string {
  if (!isObject(body)) return typeof body === "string" ? body : "";
  return textAt(body["error"], "message") || textAt(body, "message");
}
