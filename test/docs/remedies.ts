/** What to do about messages that the page about errors does not list, for the page of the reference with all messages. */

/** Parts of messages, with `…` for what differs, and what to do about each. Links lead from the folder of the docs. */
export const REMEDIES: readonly (readonly [text: string, remedy: string])[] = [
  ["… must be a positive integer", "A limit is an integer from 1: [limits](options.md#limits-and-timeouts)."],
  ["… must be a QuotaStore, …", "`memoryQuotaStore([…])`, or another [store](quota.md)."],
  ["polygate needs Node …", "Update [Node](production.md#supported-versions)."],
  ["relay: baseUrl is not a URL.", "[The address of an upstream](backends.md#the-address-of-an-upstream)."],
  ["baseUrl is the address of a route of …", "Choose the `format` of that route."],
  ["… cannot be loaded: …", "Correct the file of [`serve`](production.md#a-server-from-one-file)."],
  [
    "reported …, and at most … are believed",
    "Which counts are believed: [rule](quota.md#what-is-held-and-what-can-exceed-it).",
  ],
  ["… of the environment says. The file .env names", "Node keeps a variable that is set: unset it, or give `--store`."],
  ["This store needs the …: npm install", "Install it: [stores by address](quota.md#all-stores-by-one-address)."],
  ["does not exist; write ...….ports", "Spread the `ports` of [`openStores`](quota.md#all-stores-by-one-address)."],
  ["has not answered a health check within … ms.", "The database hangs, or its pool is too small."],
  ["A check of this service is not available.", "A [hook failed](hooks.md#a-hook-that-fails): `onFailure` says why."],
  ["This gateway does not offer …", "polygate has no such route, or the backend no such verb, as for images."],
  ['must be at most … for the model "…"', "Ask for less, or raise [its limit](backends.md#limit-or-rename-models)."],
  ["This route takes …, not …", "Use the method that it names."],
  ["A model has no method …", "Write `:generateContent`, or another [route of Google's](generate-content.md)."],
  ["The request took longer than the gateway allows.", "Raise `limits.deadlineMs`."],
  ["must be visible ASCII characters", "The key has a line break, a space or another character."],
  ["has a name that does not resolve", "Correct the name of the host in `baseUrl`."],
  ["does not speak TLS", "Write `http:` in `baseUrl`."],
  ["has a certificate that this process does not trust", "Name its authority in `NODE_EXTRA_CA_CERTS`."],
  [
    "The model backend's answer broke off.",
    "The upstream ended it: [who pays](backends.md#hang-ups-and-failed-calls).",
  ],
  ["A request of a client missed the gateway", "Correct the client's [base URL](mounting.md#base-urls-of-clients)."],
  [
    "The upstream's … did not come within … ms.",
    "Raise the [timeout](reference/polygate-backends-relay.md#relaytimeouts).",
  ],
  ["The relay's … has not returned within … ms.", "A function for [credentials](credentials.md) hangs."],
  ["takes no connections.", "Start the upstream, or correct `baseUrl`."],
  ["The upstream answered …, …: …", "The upstream's own error, for you alone."],
  ["has as many calls at once as it may.", "[One tenant beside others](production.md#one-tenant-beside-others)."],
  ['The document … is encrypted with the key "…', "Keep the old [secret](responses.md#kept-responses)."],
];
