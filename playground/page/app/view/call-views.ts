/** The tabs with the raw request, the raw answer and the code of a call. */

import { asCurl } from "../http/as-curl.ts";
import { asHttp } from "../http/as-http.ts";
import type { ApiCall } from "../http/call.ts";
import { type Exchange, isRunning, type Progress } from "../http/exchange.ts";
import { type Tab, Tabs } from "./controls.ts";
import { html, type View } from "./html.ts";
import { Listing } from "./listing.ts";

/** A call to show. Its key is public or hidden. */
export interface ShownCall {
  readonly call: ApiCall;
  readonly exchange: Exchange | undefined;
  readonly sdk: string;
  readonly sdkCode: string;
}

export const callTabs = (shown: ShownCall): Tab[] => [
  { name: "Raw", content: () => html`<${Raw} ...${shown} />` },
  { name: "Code", content: () => html`<${Code} ...${shown} />` },
];

function Raw({ call, exchange }: ShownCall): View {
  const progress = exchange?.progress.value;
  return html`
    <div class="wide">
      <${Listing} kind="short" label="Request" hasHeading text=${asHttp(call, location.host)} />
      ${
        progress
          ? html`<${Listing}
              label="Response"
              hasHeading
              text=${responseText(progress)}
              isGrowing=${isRunning(progress)}
            />`
          : html`<p class="hint">The response stands here once the call is made, frame by frame.</p>`
      }
    </div>
  `;
}

function responseText({ phase, status, headers, text, problem }: Progress): string {
  if (status === undefined) return phase === "sending" ? "(waiting)" : `(${problem ?? "stopped before an answer"})`;
  const end = { stopped: "\n(stopped here)", broken: `\n(broken off: ${problem})` }[phase as string] ?? "";
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status}`, ...lines, "", shortened(text) + end].join("\n");
}

/** Removes the middle of base64 pictures. */
const shortened = (text: string): string =>
  text.replaceAll(
    /("(?:b64_json|data)":\s*"[A-Za-z0-9+/]{60})([A-Za-z0-9+/=]{200,})"/g,
    (_, start: string, rest: string) => `${start}… ${rest.length.toLocaleString("en")} more"`,
  );

const Code = ({ call, sdk, sdkCode }: ShownCall): View => {
  const tabs = [
    { name: sdk, content: () => html`<${Listing} kind="code" label=${sdk} text=${sdkCode} />` },
    {
      name: "curl",
      content: () => html`<${Listing} kind="code" label="curl" text=${asCurl(call, location.origin)} />`,
    },
    { name: "HTTP", content: () => html`<${Listing} kind="code" label="HTTP" text=${asHttp(call, location.host)} />` },
  ];
  return html`<div class="wide"><${Tabs} label="Code of the call" tabs=${tabs} isSmall /></div>`;
};
