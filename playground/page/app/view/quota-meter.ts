/** Shows the remaining quota of the key, what live calls hold, and the charge of the last call. */

import { charged, held, type Quota, quota } from "../state/quota.ts";
import { html, type View } from "./html.ts";

const dollars = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 6 });

/** Writes units as money: the prices of the playground are in dollars. */
const money = (units: number): string => dollars.format(units / 1_000_000);

export function QuotaMeter(): View {
  const now = quota.value;
  if (typeof now !== "object")
    return html`<p class="quota" role="status"><span class="quota-text">${now ?? "Asking …"}</span></p>`;
  return html`
    <div class="quota" title=${aboutOf(now)}>
      ${!now.isUnlimited && html`<${Bar} quota=${now} />`}
      <p class="quota-text">
        ${now.isUnlimited ? `Unlimited, ${money(now.used)} used` : `${money(now.available)} left`}
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
      aria-valuetext=${`${money(used)} of ${money(granted)} used, ${money(available)} left`}
    >
      <span class="quota-used" style=${{ width: percent(settled) }}></span>
      ${held.value > 0 && html`<span class="quota-held" style=${{ width: percent(held.value) }}></span>`}
    </div>
  `;
}

/** Shows what is held during a call, and then the charge. */
function Change(): View {
  if (held.value > 0) return html`<span class="quota-change is-held">${money(held.value)} held</span>`;
  if (charged.value === undefined) return null;
  return html`<span class="quota-change">${money(charged.value)} charged</span>`;
}

function aboutOf({ name, granted, used, available, isUnlimited, models, expiresAt }: Quota): string {
  const lines = [
    `Key: ${name}`,
    isUnlimited ? `Used: ${money(used)}` : `${money(used)} of ${money(granted)} used, ${money(available)} left`,
    `Models: ${models?.join(", ") ?? "all"}`,
    `Expires: ${expiresAt === 0 ? "never" : new Date(expiresAt * 1000).toISOString().slice(0, 10)}`,
  ];
  return lines.join("\n");
}
