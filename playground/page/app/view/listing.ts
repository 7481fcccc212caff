/** A text to read and to copy. */

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { announce } from "./announcer.ts";
import { Coloured } from "./coloured.ts";
import { html, type View } from "./html.ts";

/** The most characters to show. A copy contains the whole text. */
const MAX_SHOWN = 60_000;

/** The time that a button shows the result of a copy, in milliseconds. */
const SAID_MS = 2_000;

interface ListingProps {
  readonly label: string;
  readonly text: string;
  readonly hasHeading?: boolean;
  /** The layout: `code` does not wrap lines, and `short` leaves room for another listing below. */
  readonly kind?: "code" | "short";
  /** True while the text grows. Such a text is not coloured, because colouring each version would take too long. */
  readonly isGrowing?: boolean;
}

export function Listing({ label, text, hasHeading = false, kind, isGrowing = false }: ListingProps): View {
  const shown =
    text.length > MAX_SHOWN
      ? `… ${(text.length - MAX_SHOWN).toLocaleString("en")} characters before, which are copied too …\n${text.slice(-MAX_SHOWN)}`
      : text;
  return html`
    <div class=${kind ? `listing is-${kind}` : "listing"}>
      <div class="listing-head">
        ${hasHeading && html`<h4>${label}</h4>`}
        <${CopyButton} label=${label} text=${text} />
      </div>
      <pre tabindex="0" role="region" aria-label=${label}>
${isGrowing ? html`<code>${shown}</code>` : html`<${Coloured} text=${shown} />`}</pre>
    </div>
  `;
}

/** @param props.label Names the text. Without it, the name of the button is what it shows. */
export function CopyButton({ label, text }: { readonly label?: string; readonly text: string }): View {
  const said = useSignal("Copy");
  const reset = useRef<ReturnType<typeof setTimeout>>(undefined);
  const copy = async (): Promise<void> => {
    said.value = await navigator.clipboard.writeText(text).then(
      () => "Copied",
      () => "Not allowed",
    );
    announce(label === undefined ? said.value : `${label}: ${said.value}`);
    clearTimeout(reset.current);
    reset.current = setTimeout(() => (said.value = "Copy"), SAID_MS);
  };
  return html`
    <button type="button" class="quiet copy" aria-label=${label && `Copy: ${label}`} onClick=${copy}>
      ${said.value}
    </button>
  `;
}
