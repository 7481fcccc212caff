/** The whole page: its header, and the current part below. */

import { place } from "../state/place.ts";
import { Announcer } from "./announcer.ts";
import { Chat } from "./chat.ts";
import { Docs } from "./docs.ts";
import { Header } from "./header.ts";
import { html, type View } from "./html.ts";
import { Nearness } from "./nearness.ts";
import { Pictures } from "./pictures.ts";

export const App = (): View => html`
  <a class="skip" href="#main">Skip to the content</a>
  <${Header} />
  <main id="main" tabindex="-1">
    <div hidden=${place.value !== "chat"}><${Chat} /></div>
    <div hidden=${place.value !== "pictures"}><${Pictures} /></div>
    <div hidden=${place.value !== "nearness"}><${Nearness} /></div>
    ${place.value === "docs" && html`<${Docs} />`}
  </main>
  <${Announcer} />
`;
