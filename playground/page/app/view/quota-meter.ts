/** Shows the remaining quota of the key, the units that live calls hold, and the charge of the last call. */

import { charged, held, type Quota, quota } from "../state/quota.ts";
import { html, type View } from "./html.ts";

const number = (value: number): string => value.toLocaleString("en");

export function QuotaMeter(): View {
  const now = quota.value;
  if (typeof now !== "object")
    return html`<p class="quota" role="status"><span class="quota-text">${now ?? "Asking …"}</span></p>`;
  return html`
    <div class="quota" title=${aboutOf(now)}>
      ${!now.isUnlimited && html`<${Bar} quota=${now} />`}
      <p class="quota-text">
        ${now.isUnlimited ? `Unlimited, ${number(now.used)} used` : `${number(now.available)} left`}
        <${Change} />
      </p>
    </div>
  `;
}

function Bar({ quota: { granted, used, available } }: { readonly quota: Quota }): View {
  const settled = used - held.value;
  const percent = (units: number): string => `${granted > 0 ? (100 * units) / granted : 0}%`;
  return html`
    <div
      class="quota-bar"
      role="meter"
      aria-label="Quota used"
      aria-valuemin="0"
      aria-valuemax=${granted}
      aria-valuenow=${used}
      aria-valuetext=${`${number(used)} of ${number(granted)} units used, ${number(available)} left`}
    >
      <span class="quota-used" style=${{ width: percent(settled) }}></span>
      ${held.value > 0 && html`<span class="quota-held" style=${{ width: percent(held.value) }}></span>`}
    </div>
  `;
}

/** Shows the held units during a call, and then the charge. */
function Change(): View {
  if (held.value > 0) return html`<span class="quota-change is-held">${number(held.value)} held</span>`;
  if (charged.value === undefined) return null;
  return html`<span class="quota-change">${number(charged.value)} charged</span>`;
}

function aboutOf({ name, granted, used, available, isUnlimited, models, expiresAt }: Quota): string {
  const lines = [
    `Key: ${name}`,
    isUnlimited ? `Used: ${number(used)}` : `${number(used)} of ${number(granted)} used, ${number(available)} left`,
    `Models: ${models?.join(", ") ?? "all"}`,
    `Expires: ${expiresAt === 0 ? "never" : new Date(expiresAt * 1000).toISOString().slice(0, 10)}`,
  ];
  return lines.join("\n");
}
