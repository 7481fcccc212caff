/** The small controls of the page. */

import { useSignal } from "@preact/signals";
import { useId, useRef } from "preact/hooks";
import { type Children, html, type View } from "./html.ts";

interface SwitchProps {
  readonly label: string;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
}

export const Switch = ({ label, isOn, onChange }: SwitchProps): View => html`
  <label class="switch">
    <input
      type="checkbox"
      checked=${isOn}
      onChange=${(event: Event) => onChange((event.currentTarget as HTMLInputElement).checked)}
    />
    <span>${label}</span>
  </label>
`;

interface FieldProps {
  readonly label: string;
  readonly value: string | number;
  readonly onInput: (text: string) => void;
  readonly type?: string;
  readonly min?: string;
  readonly max?: string;
  readonly step?: string;
  readonly placeholder?: string;
  /** Values to choose from. Any other value can be typed. */
  readonly options?: readonly string[];
}

export function Field({ label, value, onInput, type = "text", options, ...bounds }: FieldProps): View {
  const id = useId();
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <input
        id=${id}
        type=${type}
        ...${bounds}
        list=${options && `${id}-options`}
        autocomplete="off"
        value=${value}
        onInput=${(event: Event) => onInput((event.currentTarget as HTMLInputElement).value)}
      />
      ${
        options &&
        html`<datalist id=${`${id}-options`}>
          ${options.map((option) => html`<option value=${option}></option>`)}
        </datalist>`
      }
    </div>
  `;
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly string[];
  readonly onChange: (value: string) => void;
}

export function Choice({ label, value, options, onChange }: ChoiceProps): View {
  const id = useId();
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <select
        id=${id}
        value=${value}
        onChange=${(event: Event) => onChange((event.currentTarget as HTMLSelectElement).value)}
      >
        ${options.map((option) => html`<option value=${option}>${option}</option>`)}
      </select>
    </div>
  `;
}

export interface Tab {
  readonly name: string;
  readonly content: () => Children;
}

interface TabsProps {
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly isSmall?: boolean;
}

/** Shows tabs as the ARIA practices describe. The arrow keys switch between tabs. */
export function Tabs({ label, tabs, isSmall = false }: TabsProps): View {
  const id = useId();
  const chosen = useSignal(0);
  const list = useRef<HTMLDivElement>(null);
  const choose = (index: number): void => {
    chosen.value = (index + tabs.length) % tabs.length;
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[chosen.value]?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowRight") choose(chosen.value + 1);
    else if (event.key === "ArrowLeft") choose(chosen.value - 1);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(-1);
    else return;
    event.preventDefault();
  };
  return html`
    <div class=${`tabs ${isSmall ? "is-small" : ""}`}>
      <div class="tab-list" role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
        ${tabs.map(
          ({ name }, index) => html`
            <button
              type="button"
              role="tab"
              id=${`${id}-tab-${index}`}
              aria-selected=${index === chosen.value}
              aria-controls=${`${id}-panel`}
              tabindex=${index === chosen.value ? 0 : -1}
              onClick=${() => choose(index)}
            >
              ${name}
            </button>
          `,
        )}
      </div>
      <div class="tab-panel" role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-tab-${chosen.value}`}>
        ${tabs[chosen.value]?.content()}
      </div>
    </div>
  `;
}
