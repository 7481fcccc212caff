/** The docs as the page shows them: their Markdown is read whole, and each of their links leads somewhere. */

import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { groupsOf, headingsOf } from "../../playground/page/app/docs/contents.ts";
import { markedIn } from "../../playground/page/app/docs/excerpts.ts";
import { addressOf, type Block, blocksOf, piecesOf } from "../../playground/page/app/docs/markdown.ts";
import { searchIn } from "../../playground/page/app/docs/search.ts";
import { pageFiles } from "../../playground/page/files.ts";

const ROOT = new URL("../../", import.meta.url);
const FILES = [
  ...readdirSync(new URL("docs/", ROOT), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md")),
  "../SECURITY.md",
  "../CHANGELOG.md",
];
const pages = new Map(
  FILES.map((file) => [basename(file, ".md"), blocksOf(readFileSync(new URL(`docs/${file}`, ROOT), "utf8"))]),
);

/** All texts of a block that may have links. */
function textsIn(block: Block): readonly string[] {
  if (block.type === "list") return block.items;
  if (block.type === "table") return block.rows.flat();
  return block.type === "code" ? [] : [block.text];
}

const served = pageFiles(new URL("playground/page/app/", ROOT), ROOT);

const { pages: texts, phrases } = JSON.parse(served.find("/page/docs/pages.json")?.text ?? "") as {
  readonly pages: Readonly<Record<string, string>>;
  readonly phrases: string;
};

function isServed(address: string): boolean {
  const [, name = "", heading] = address.split("/");
  const [, kind] = /\.(ts|sql)$/.exec(name) ?? [];
  if (kind)
    return texts[name]?.startsWith(`# ${name}\n\n\`\`\`${kind}\n${kind === "ts" ? "//" : "--"} ${name}\n`) ?? false;
  const ids = (pages.get(name) ?? []).flatMap((block) => (block.type === "heading" ? block.id : []));
  const file = served.find(`/page/docs/${name}.md`);
  return file?.type === "text/markdown; charset=utf-8" && (heading === undefined || ids.includes(heading));
}

it("has no two pages of one name, because addresses name them", () => {
  expect(pages.size).toBe(FILES.length);
});

describe.each([...pages])("%s", (page, blocks) => {
  it("begins with its heading, and all its rows are as long as their head", () => {
    expect(blocks[0]?.type).toBe("heading");
    const tables = blocks.filter((block) => block.type === "table");
    for (const { rows } of tables) expect(new Set(rows.map(({ length }) => length)).size).toBe(1);
  });

  it("leads to pages and headings that are served, and says the rest in words", () => {
    const links = blocks.flatMap(textsIn).flatMap(piecesOf);
    expect(links.filter(({ text }) => text === "")).toEqual([]);
    const addresses = links.flatMap(({ type, href = "" }) => (type === "link" ? (addressOf(href, page) ?? []) : []));
    const own = addresses.filter((address) => address.startsWith("#"));
    expect(own.filter((address) => !isServed(address))).toEqual([]);
  });
});

it("reads each kind of block", () => {
  const markdown = `# A \`title\`, twice

<!-- options: Limits -->
One line
goes on.

- first
- second
  goes on

1. one

| A | B |
| - | - |
| a \\| b | c |

\`\`\`ts
# no heading

- no list
\`\`\`
The end.`;
  expect(blocksOf(markdown)).toEqual([
    { type: "heading", level: 1, text: "A `title`, twice", id: "a-title-twice" },
    { type: "paragraph", text: "One line goes on." },
    { type: "list", isOrdered: false, items: ["first", "second goes on"] },
    { type: "list", isOrdered: true, items: ["one"] },
    {
      type: "table",
      rows: [
        ["A", "B"],
        ["a | b", "c"],
      ],
    },
    { type: "code", text: "# no heading\n\n- no list" },
    { type: "paragraph", text: "The end." },
  ]);
  expect(piecesOf("Read **[the `x`](a.md#b)** and `c`.")).toEqual([
    { type: "text", text: "Read " },
    { type: "strong", text: "[the `x`](a.md#b)" },
    { type: "text", text: " and " },
    { type: "code", text: "c" },
    { type: "text", text: "." },
  ]);
});

it("ends, whatever it reads", () => {
  for (const odd of ["", "```", "|", "- ", "#", "[", "<!--", "``` \n| \n- \n#", "\n\n"])
    expect(blocksOf(odd).flatMap(textsIn).flatMap(piecesOf)).toBeDefined();
});

it("leads nowhere but to pages and to the web", () => {
  for (const href of ["", "javascript:alert(1)", "picture.png", "../src/index.ts", "//elsewhere.example"])
    expect(addressOf(href, "quota")).toBeUndefined();
  expect(addressOf("#sql", "quota")).toBe("#docs/quota/sql");
  expect(addressOf("../SECURITY.md", "quota")).toBe("#docs/SECURITY");
  expect(addressOf("examples/company.ts", "company-gateway")).toBe("#docs/company.ts");
  expect(addressOf("examples/litellm-keys.sql", "moving")).toBe("#docs/litellm-keys.sql");
});

describe("the contents", () => {
  it("have each page in its group, in the order of the index", () => {
    const groups = groupsOf(pages.get("README") ?? []);
    expect(groups.length).toBeGreaterThan(4);
    const listed = groups.flatMap(({ entries }) => entries.map(({ href }) => href));
    expect(listed.filter((address) => !isServed(address))).toEqual([]);
    const own = FILES.filter((file) => !file.includes("/")).map((file) => `#docs/${basename(file, ".md")}`);
    expect(listed).toEqual(expect.arrayContaining(own.filter((address) => address !== "#docs/README")));
  });

  it("have the headings of a page, to the third level", () => {
    expect(headingsOf("quota", blocksOf("# A\n\n## One `b`\n\n### Two\n\n#### Deep\n\n## Three\n"))).toEqual([
      { name: "One b", href: "#docs/quota/one-b", level: 2 },
      { name: "Two", href: "#docs/quota/two", level: 3 },
      { name: "Three", href: "#docs/quota/three", level: 2 },
    ]);
  });
});

/** Returns a function for the sections that the search finds in some pages. */
const hitsIn = (...given: Parameters<typeof searchIn>) => {
  const search = searchIn(...given);
  return (query: string) => search(query).hits;
};

/** Returns the names of the headings and the items of a page. */
const namesOf = (page = ""): string[] =>
  Array.from(page.matchAll(/^(?:## |### |- \[?`)((?:--)?[\w-]+)(?: \(type\)$)?/gm), ([, name = ""]) => name);

/** Tells whether a name is no word that people use. */
const isShaped = (name: string): boolean => /[a-z][A-Z]|[A-Z]{2}[a-z]|.[_-]./.test(name);

describe("the search", () => {
  const search = searchIn(texts, phrases);
  const find = (query: string) => search(query).hits;

  it.each([
    ["ChatRequest", "polygate-requests-and-events"],
    ["ChatEvent", "polygate-requests-and-events"],
    ["ContentEvent", "polygate-requests-and-events"],
    ["ImageRequest", "polygate-requests-and-events"],
    ["EmbeddingRequest", "polygate-requests-and-events"],
    ["ToolChoice", "polygate-requests-and-events"],
    ["ModelBackend", "polygate-backends-and-hooks"],
    ["HookEvent", "polygate-backends-and-hooks"],
    ["HangUp", "polygate-backends-and-hooks"],
    ["RelayOptions", "polygate-backends-relay"],
  ])("finds the type %s first at its own entry", (name, page) => {
    expect(find(name)[0]).toMatchObject({ page, heading: name.toLowerCase() });
  });

  it.each([
    ["maxJsonBytes", "polygate", "limits"],
    ["budget of a team", "budgets", ""],
    ["x-should-retry", "headers", "of-answers"],
    ["trust proxy", "mounting", "express"],
    ["grace period", "production", "the-grace-period"],
  ])("finds %s", (query, page, heading) => {
    expect(find(query).slice(0, 4)).toContainEqual(expect.objectContaining({ page, heading }));
  });

  it("takes the name of a member of every object for a word", () => {
    const page = "made-up";
    expect(hitsIn({ [page]: "# Made up\n\nThe constructor of a class." })("constructor")).toMatchObject([{ page }]);
    expect(find("the constructor of a budget")).not.toEqual([]);
  });

  // Questions as people ask them, and the sections that answer them.
  it.each([
    ["why was this refused", ["usage/why-a-call-was-refused"]],
    ["upgrade", ["upgrading/"]],
    ["rotate a key", ["keys-and-limits/rotate-a-key"]],
    ["database is down", ["operations/when-the-database-is-down"]],
    ["delete old calls", ["usage/the-recorder"]],
    ["cors", ["mounting/pages-in-a-browser"]],
    ["body parser", ["mounting/"]],
    ["prometheus", ["telemetry/prometheus"]],
    ["two processes", ["production/several-processes-or-replicas", "keys-and-limits/counters-for-a-fleet"]],
    ["timeout", ["options/limits-and-timeouts", "polygate/limits"]],
    ["streaming behind nginx", ["production/proxies"]],
    ["bun", ["mounting/bun"]],
    ["cost of a call", ["quota/the-price-of-a-call", "prices/"]],
    ["limit a team", ["budgets/"]],
    ["stop a running call", ["admin/live-calls"]],
    ["docker", ["production/docker", "production/a-server-from-one-file", "production/a-host-to-start-from"]],
    ["test my integration", ["testing/"]],
    ["azure", ["credentials/azure"]],
    ["hide secrets in prompts", ["hooks/the-redactor-mask-personal-data"]],
    ["fallback provider", ["routes/fallback-when-an-upstream-fails", "routes/"]],
    ["alert when budget is used up", ["budgets/alerts-and-webhooks"]],
    ["websocket", ["mounting/websockets", "responses/websockets"]],
    [
      "limit max output tokens per model",
      [
        "budgets/what-a-running-call-holds",
        "quota/what-is-held-and-what-can-exceed-it",
        "backends/relays",
        "backends/limit-or-rename-models",
      ],
    ],
    ["rotate a key without downtime", ["keys-and-limits/rotate-a-key"]],
    ["rotate upstream key", ["credentials/upstream-keys-that-expire-or-rotate"]],
    ["export usage to excel", ["usage/export-to-excel-or-another-spreadsheet", "usage/reports-and-bills"]],
    ["stream cut off client hangs up who pays", ["backends/hang-ups-and-failed-calls"]],
    ["virtual keys", ["keys-and-limits/keys", "keys-and-limits/"]],
    ["spend limit per team", ["budgets/"]],
    ["fallback model", ["routes/fallback-when-an-upstream-fails", "routes/"]],
    ["load balancing", ["routes/load-balancing", "routes/"]],
    ["A/B test models canary", ["routes/canaries-and-ab-tests"]],
    ["model alias rename", ["backends/relays", "routes/", "backends/limit-or-rename-models"]],
    ["429 retry-after", ["keys-and-limits/rate-limits", "errors/codes"]],
    ["tokens per minute", ["keys-and-limits/rate-limits", "keys-and-limits/how-tokens-per-minute-are-counted"]],
    ["per user rate limit", ["keys-and-limits/rate-limits", "keys-and-limits/rate-tiers"]],
    ["azure openai upstream", ["credentials/azure"]],
    ["vertex", ["credentials/google-cloud"]],
    ["bedrock", ["credentials/aws", "credentials/converse"]],
    ["self-hosted vllm ollama", ["backends/relays", "chat-completions/"]],
    ["claude code base url", ["mounting/base-urls-of-clients", "messages/"]],
    ["codex config", ["responses/coding-agents"]],
    ["cursor", ["mounting/base-urls-of-clients"]],
    ["langchain", ["mounting/base-urls-of-clients"]],
    ["next.js app router", ["mounting/nextjs"]],
    ["express body parser", ["mounting/express", "mounting/"]],
    ["cors browser", ["mounting/pages-in-a-browser"]],
    ["kubernetes graceful shutdown", ["production/shutdown", "production/deploy", "production/the-grace-period"]],
    ["healthcheck", ["production/health"]],
    ["redis cluster", ["budgets/in-each-store", "quota/redis"]],
    ["postgres schema", ["quota/sql-postgresql-mysql-sqlite"]],
    ["what happens when postgres is down", ["operations/when-the-database-is-down"]],
    ["cost of cached tokens", ["prices/cached-tokens"]],
    ["prompt caching", ["routes/affinity-prompt-caching"]],
    ["images price", ["images/prices"]],
    ["webhook on budget", ["budgets/alerts-and-webhooks"]],
    ["invoice per customer", ["usage/invoices"]],
    ["log prompts and responses", ["hooks/after", "hooks/", "security/where-prompts-and-answers-are-kept"]],
    ["pii masking guardrails", ["hooks/the-redactor-mask-personal-data"]],
    ["structured output json schema", ["conversions/", "chat-completions/what-is-understood"]],
    ["pass user id to backend", ["mounting/your-own-context-such-as-a-user"]],
    ["show remaining quota to user", ["token-usage/token-usage", "token-usage/"]],
    ["install", ["getting-started/"]],
    ["node version", ["production/supported-versions"]],
    ["upstream timeout", ["backends/timeouts-of-a-slow-upstream", "polygate-backends-relay/relaytimeouts"]],
    ["timeout upstream slow", ["backends/timeouts-of-a-slow-upstream", "polygate-backends-relay/relaytimeouts"]],
    ["max_tokens 1 refused", ["messages/options", "polygate/messagesoptions"]],
    ["client disconnects charged", ["backends/hang-ups-and-failed-calls"]],
    ["stream aborted by client cost", ["backends/hang-ups-and-failed-calls"]],
    ["vitest toHaveCharged not function", ["testing/matchers"]],
    ["unlimited key", ["keys-and-limits/keys", "keys-and-limits/"]],
    ["user id of my app into a call", ["mounting/your-own-context-such-as-a-user"]],
    ["cost per user", ["usage/reports-and-bills"]],
    ["wrong model name error", ["errors/messages-by-their-text", "errors/codes"]],
    ["unknown model error", ["errors/messages-by-their-text", "errors/codes"]],
    ["model not found error", ["errors/codes"]],
    ["invalid api key error", ["errors/codes"]],
    ["request too large error", ["errors/codes"]],
    ["toHaveCharged is not a function", ["errors/messages-of-node-and-of-sdks", "testing/matchers"]],
    ["vercel", ["mounting/nextjs"]],
    ["sso", ["admin/login"]],
    ["behind our login", ["admin/login", "admin/"]],
    ["dashboard for keys", ["admin/the-page"]],
    ["mock the model in ci", ["testing/a-script-for-the-model"]],
    ["CI test with a scripted model", ["testing/a-script-for-the-model", "testing/"]],
    ["openrouter", ["backends/relays"]],
    ["heartbeat", ["production/proxies"]],
    ["stream stops after 60 seconds", ["production/proxies"]],
    ["two teams with monthly budgets", ["budgets/"]],
    ["spend report per team per month", ["budgets/", "telemetry/spend-by-team"]],
    ["revoke a leaked key", ["keys-and-limits/rotate-a-key"]],
    ["restrict a key to some models", ["keys-and-limits/keys"]],
    ["what does held mean", ["budgets/words"]],
    ["gemini cli", ["mounting/base-urls-of-clients"]],
    ["are prompts stored", ["security/where-prompts-and-answers-are-kept"]],
    ["cloudflare workers", ["mounting/cloudflare-workers"]],
    ["price in dollars", ["prices/", "prices/from-dollars-to-units-and-back"]],
    ["database migration", ["operations/rolling-deploys-and-migrations", "quota/sql-postgresql-mysql-sqlite"]],
    ["list models endpoint", ["token-usage/models"]],
    ["anthropic-beta header", ["messages/"]],
    ["refund", ["backends/hang-ups-and-failed-calls"]],
    ["charged for a failed call", ["backends/hang-ups-and-failed-calls"]],
    ["change the port", ["production/a-server-from-one-file"]],
    ["aws lambda", ["mounting/hono"]],
    ["outgoing http proxy", ["backends/relays"]],
    ["migrate database", ["quota/sql-postgresql-mysql-sqlite", "operations/rolling-deploys-and-migrations"]],
    ["own database for keys", ["keys-and-limits/your-own-auth"]],
    ["move from litellm", ["moving/"]],
    ["migrate from portkey", ["moving/"]],
    ["keys of litellm", ["moving/keys-and-budgets"]],
    ["langfuse", ["telemetry/traces"]],
    ["slack", ["budgets/alerts-and-webhooks"]],
    ["whisper", ["moving/what-polygate-does-not-have"]],
    ["semantic cache", ["moving/what-polygate-does-not-have"]],
    ["helm", ["production/deploy"]],
    ["config file", ["production/a-server-from-one-file"]],
    ["environment variables", ["production/a-server-from-one-file", "command-line/environment-and-exit-codes"]],
    ["disable model", ["backends/limit-or-rename-models"]],
    ["benchmark", ["performance/"]],
    ["free tier", ["keys-and-limits/rate-tiers"]],
    ["delete a key", ["keys-and-limits/keys"]],
    ["cancel stream", ["backends/hang-ups-and-failed-calls"]],
    ["quota exceeded", ["errors/codes"]],
    ["413 request too large", ["errors/codes"]],
    ["invalid api key", ["errors/codes"]],
    ["rate limited", ["errors/codes"]],
    ["model not found", ["errors/codes"]],
    ["nginx timeout", ["production/proxies"]],
    ["vault", ["credentials/upstream-keys-that-expire-or-rotate"]],
    ["realtime", ["moving/what-polygate-does-not-have"]],
    ["vision", ["chat-completions/what-is-understood"]],
    ["reset budget", ["budgets/top-up-and-change-budgets", "budgets/"]],
    ["sqlite file", ["quota/sql-postgresql-mysql-sqlite"]],
    ["what permissions does the database user need", ["quota/all-stores-by-one-address"]],
    ["turn off a team immediately", ["operations/in-an-incident"]],
    ["a customer says his key does not work", ["operations/in-an-incident"]],
    ["customer gets 401 with a valid key", ["operations/in-an-incident", "errors/codes"]],
    ["does the gateway retry a failed request to the provider", ["routes/fallback-when-an-upstream-fails"]],
    ["how long are call records kept", ["usage/the-recorder", "security/where-prompts-and-answers-are-kept"]],
    ["who pays when the upstream fails", ["backends/hang-ups-and-failed-calls"]],
    ["how big will the database get", ["production/sizing-and-memory"]],
    ["529 overloaded", ["errors/codes"]],
    [
      "Access to fetch at 'http://x' from origin 'http://y' has been blocked by CORS policy",
      ["errors/messages-of-node-and-of-sdks", "mounting/pages-in-a-browser"],
    ],
    [
      "No 'Access-Control-Allow-Origin' header is present",
      ["errors/messages-of-node-and-of-sdks", "mounting/pages-in-a-browser"],
    ],
    ["Cannot POST /ai/chat/completions", ["errors/messages-of-node-and-of-sdks"]],
    ["test a hook that reads context", ["testing/a-script-for-the-model"]],
    ["one model for all requests", ["hooks/before"]],
    ["default model", ["hooks/before"]],
    ["how long can a request take", ["options/limits-and-timeouts"]],
    ["cache responses", ["moving/what-polygate-does-not-have"]],
    ["n > 1 choices", ["chat-completions/what-is-understood"]],
    ["run on bun", ["mounting/bun"]],
    ["run it in deno", ["mounting/deno"]],
    ["respond 401 from my own middleware in the right format", ["mounting/your-own-context-such-as-a-user"]],
    ["list of models is empty", ["backends/a-backend-of-your-own", "token-usage/models"]],
    ["errorResponse", ["polygate/gateway", "mounting/your-own-context-such-as-a-user"]],
    ["customer closes the browser mid answer, is it billed", ["backends/hang-ups-and-failed-calls"]],
    ["cancel a running request when the user closes the tab", ["backends/hang-ups-and-failed-calls"]],
    ["user closes the tab", ["backends/hang-ups-and-failed-calls"]],
    ["openai is down, what happens", ["routes/fallback-when-an-upstream-fails"]],
    ["incident: provider is down", ["routes/fallback-when-an-upstream-fails", "operations/in-an-incident"]],
    ["kill a runaway request", ["admin/live-calls"]],
    ["stop a runaway agent", ["admin/live-calls", "operations/in-an-incident"]],
    ["kill switch", ["operations/in-an-incident"]],
    ["leaked api key", ["keys-and-limits/rotate-a-key"]],
    ["leaked api key what to do", ["keys-and-limits/rotate-a-key"]],
    ["change the admin password", ["admin/login"]],
    ["rotate the admin login", ["admin/login"]],
    ["monthly report for finance csv", ["usage/a-monthly-report-for-finance"]],
    ["zero downtime", ["operations/rolling-deploys-and-migrations"]],
    ["zero downtime deploy", ["operations/rolling-deploys-and-migrations"]],
    ["deployment", ["production/deploy"]],
    ["CDN", ["production/proxies"]],
    ["cloudflare cdn in front", ["production/proxies"]],
    ["cloudfront", ["production/proxies"]],
    ["incident", ["operations/in-an-incident"]],
    ["runbook", ["operations/in-an-incident"]],
    ["systemd", ["production/deploy"]],
    ["ip allowlist", ["mounting/your-own-context-such-as-a-user"]],
    ["disk full log table growing", ["usage/the-recorder"]],
    ["connection pool size postgres", ["production/sizing-and-memory"]],
    ["max connections", ["production/sizing-and-memory"]],
    ["database connections", ["production/sizing-and-memory"]],
    ["pool size", ["production/sizing-and-memory"]],
    ["restore a backup", ["operations/back-up-and-restore"]],
    ["backup", ["operations/back-up-and-restore"]],
    ["what do I back up", ["operations/back-up-and-restore", "quota/sql-postgresql-mysql-sqlite"]],
    ["disaster recovery", ["operations/back-up-and-restore"]],
    ["move to another database server", ["operations/back-up-and-restore"]],
    ["downgrade", ["operations/rolling-deploys-and-migrations"]],
    ["erase a user", ["security/erase-a-person-gdpr"]],
    ["delete all data of a user GDPR", ["security/erase-a-person-gdpr"]],
    ["give a model a custom name", ["backends/limit-or-rename-models"]],
    ["Web standard Request Response handler", ["mounting/anything-that-speaks-fetch"]],
    ["express.json() is already installed before the gateway", ["mounting/express"]],
    ["body parser already there", ["mounting/"]],
    ["cookie login", ["keys-and-limits/your-own-auth"]],
    ["authenticate with cookie", ["keys-and-limits/your-own-auth"]],
    ["use session cookie for auth", ["keys-and-limits/your-own-auth"]],
    ["parallel tool calls", ["chat-completions/what-is-understood"]],
    ["pause all traffic", ["keys-and-limits/keys"]],
    ["lm studio", ["backends/relays"]],
    ["self hosted model", ["backends/relays"]],
    ["price of image models", ["images/prices"]],
    ["import price list json", ["prices/from-a-price-file"]],
    ["price changes next month", ["prices/when-a-price-changes"]],
    ["price of a new model missing", ["prices/"]],
    ["add price for new model", ["prices/"]],
    ["write my own adapter", ["extending/"]],
    ["search keys", ["keys-and-limits/keys"]],
    ["list all keys", ["keys-and-limits/keys"]],
    ["carry over unused budget", ["budgets/"]],
    ["budget starts on the 15th", ["budgets/"]],
    ["swagger ui", ["options/openapi"]],
    ["readonly admin", ["admin/login"]],
    ["expire keys after 90 days", ["keys-and-limits/keys"]],
    ["key expiry", ["keys-and-limits/keys"]],
    ["key with expiry date", ["keys-and-limits/keys"]],
    ["who changed the budget", ["admin/the-log-of-changes"]],
    ["time drift", ["SECURITY/what-the-host-must-do"]],
    ["HTTP 502 from nginx", ["production/proxies"]],
    ["keepalive timeout 502 behind load balancer", ["production/proxies"]],
    ["log every request", ["keys-and-limits/a-record-of-every-call"]],
    ["log requests to console", ["keys-and-limits/a-record-of-every-call", "options/failures"]],
    ["what does the Anthropic SDK throw on rate limit", ["errors-by-format/classes-of-sdks"]],
    ["split traffic 90/10", ["routes/load-balancing"]],
    ["block a prompt", ["hooks/"]],
    ["refuse a request before the gateway with my own check", ["hooks/before"]],
    ["gzip", ["mounting/express"]],
    ["image url refused", ["messages/what-is-understood"]],
    ["image by url in messages", ["messages/what-is-understood"]],
    ["request entity too large", ["errors/messages-of-node-and-of-sdks", "mounting/express"]],
    ["add metadata in a hook", ["hooks/before"]],
    ["security review SOC 2", ["SECURITY/encryption-at-rest-and-audits"]],
    ["several replicas share rate limits", ["keys-and-limits/counters-for-a-fleet"]],
    ["encryption of api keys at rest", ["SECURITY/encryption-at-rest-and-audits"]],
    ["SSO for admin page okta", ["admin/login"]],
    ["move from portkey", ["moving/"]],
    ["can our accountants see what each department cost last quarter", ["usage/reports-and-bills"]],
    ["the bill of anthropic does not match ours", ["usage/invoices"]],
    ["someone stole a key yesterday", ["keys-and-limits/rotate-a-key"]],
    ["a developer left the company, cut his access", ["keys-and-limits/keys"]],
    ["stop one team for today", ["operations/in-an-incident", "keys-and-limits/keys"]],
    ["warn me before the money is gone", ["budgets/alerts-and-webhooks"]],
    ["raise the budget until the end of the month", ["budgets/top-up-and-change-budgets"]],
    ["two servers behind one load balancer", ["production/health"]],
    ["memory of the process grows", ["production/sizing-and-memory"]],
    ["answers stop in the middle", ["production/proxies"]],
    ["upgrade from the old version safely", ["upgrading/", "operations/rolling-deploys-and-migrations"]],
    ["which tables may I query", ["sql-tables/", "usage/the-recorder"]],
    ["metrics per team in grafana", ["telemetry/grafana"]],
    ["alert when error rate rises", ["telemetry/metrics"]],
    ["trace a request to the provider", ["telemetry/traces"]],
    ["calls without a model in the report", ["usage/reports-and-bills"]],
    ["why is a model refused for one key", ["keys-and-limits/keys"]],
    ["let interns use only cheap models", ["keys-and-limits/keys"]],
    ["give every employee ten dollars a week", ["budgets/"]],
    ["sell access to customers with markup", ["prices/a-margin"]],
    ["free credits for new signups", ["keys-and-limits/keys"]],
    ["send a webhook when a budget is empty", ["budgets/alerts-and-webhooks"]],
    ["does it work with python", ["mounting/base-urls-of-clients"]],
    ["point claude code at it", ["mounting/base-urls-of-clients"]],
    ["my express app already parses json", ["mounting/express"]],
    ["use it inside next js", ["mounting/nextjs"]],
    ["call it from react", ["mounting/pages-in-a-browser"]],
    ["get the user id inside a hook", ["mounting/your-own-context-such-as-a-user", "hooks/before"]],
    ["block swear words in answers", ["hooks/during"]],
    ["remove emails from prompts", ["hooks/the-redactor-mask-personal-data"]],
    ["try the new model on five percent of calls", ["routes/canaries-and-ab-tests"]],
    ["write a fake model for unit tests", ["testing/a-script-for-the-model", "testing/"]],
    ["check the price of a call in a test", ["testing/matchers"]],
    ["simulate a timeout of the provider", ["testing/a-script-for-the-model"]],
    ["retry the same request safely", ["retries/"]],
    ["send a photo to the model", ["messages/what-is-understood"]],
    ["make pictures with it", ["images/"]],
    ["vectors for search", ["embeddings/"]],
    ["how do I count tokens of a prompt", ["messages/"]],
    ["what models can my key use", ["token-usage/models"]],
    ["change the name of a model for callers", ["backends/limit-or-rename-models"]],
    ["use my own login instead of keys", ["keys-and-limits/your-own-auth"]],
    ["keep keys in my own table", ["extending/in-tables-of-your-own"]],
    ["deploy on fly or render", ["production/deploy"]],
    ["does it phone home", ["security/where-data-goes"]],
    ["is it safe against other tenants", ["SECURITY/what-the-gateway-promises"]],
    ["openai api version for azure", ["credentials/azure"]],
    ["self signed certificate of the upstream", ["errors/messages-of-node-and-of-sdks", "backends/relays"]],
    ["use an http proxy to reach openai", ["backends/relays"]],
    ["why did my request return 400", ["usage/why-a-call-was-refused"]],
    ["how to find why a request got 400", ["usage/why-a-call-was-refused"]],
    ["how do I serve several tenants", ["keys-and-limits/several-tenants"]],
    ["multi tenant setup", ["keys-and-limits/several-tenants"]],
    ["what does each header mean", ["headers/", "headers/of-answers"]],
    ["give different teams different requests per minute", ["keys-and-limits/rate-tiers"]],
    [
      "upstream returns 429 how long does it wait",
      ["routes/circuit-breakers-and-rests", "routes/fallback-when-an-upstream-fails"],
    ],
    ["run the laws against my store", ["extending/the-laws-of-other-stores", "extending/a-quota-store-of-your-own"]],
    ["stop a stream from the server", ["admin/live-calls"]],
    [
      "typescript type of a backend",
      ["polygate-backends-and-hooks/modelbackend", "backends/a-backend-of-your-own", "polygate-backends-and-hooks/"],
    ],
    [
      "upload a pdf",
      [
        "messages/what-is-understood",
        "chat-completions/what-is-understood",
        "generate-content/what-is-understood",
        "responses/what-is-understood",
      ],
    ],
    ["cut answer when output limit is reached", ["quota/what-is-held-and-what-can-exceed-it"]],
    ["what is a unit", ["quota/", "prices/from-dollars-to-units-and-back", "budgets/words"]],
    ["keepDays", ["polygate-stores/openstoresoptions"]],
    ["switch database", ["operations/move-from-sqlite-to-postgresql"]],
    ["validate jwt instead of api key", ["keys-and-limits/your-own-auth"]],
    ["gold and silver plans with different rpm", ["keys-and-limits/rate-tiers"]],
    ["rate limit shared by all pods in redis", ["keys-and-limits/counters-for-a-fleet"]],
    ["slack message when 80% of the budget is spent", ["budgets/alerts-and-webhooks"]],
    ["copy budgets from staging to production", ["budgets/export-and-import"]],
    ["lock contention on one key", ["busy-keys/"]],
    ["unknown parameter passed through to upstream", ["conversions/unknown-fields-and-types"]],
    ["claude on bedrock", ["credentials/aws", "credentials/converse"]],
    ["iam role for bedrock", ["credentials/aws"]],
    ["context length exceeded", ["errors/prompts-that-are-too-long"]],
    ["return my own error message to the client", ["errors/errors-of-your-own"]],
    ["use mongodb for quotas", ["extending/a-quota-store-of-your-own", "extending/in-tables-of-your-own"]],
    ["scan streamed answer while it comes", ["hooks/during"]],
    ["hook throws an exception", ["hooks/a-hook-that-fails"]],
    ["remove credit card numbers from prompts", ["hooks/the-redactor-mask-personal-data"]],
    ["where are generated images stored", ["images/where-pictures-live"]],
    ["litellm config yaml equivalent", ["moving/settings"]],
    ["does it do semantic caching", ["moving/what-polygate-does-not-have"]],
    ["cached input tokens discount", ["prices/cached-tokens"]],
    ["openai lowered its prices", ["prices/when-a-price-changes"]],
    ["add 20% on top", ["prices/a-margin"]],
    ["checklist for production", ["production/before-you-go-live"]],
    ["sigterm drain", ["production/shutdown"]],
    ["blue green deploy", ["operations/rolling-deploys-and-migrations"]],
    ["quota numbers look wrong after a crash", ["operations/repair-the-ledger", "quota/what-a-crash-costs"]],
    ["one customer floods the server", ["production/one-tenant-beside-others"]],
    ["noisy neighbour", ["production/one-tenant-beside-others"]],
    ["the key went below zero", ["quota/what-is-held-and-what-can-exceed-it"]],
    ["the database failed while settling", ["quota/a-settlement-that-fails"]],
    ["long conversation compaction", ["responses/compaction", "responses/automatic-compaction"]],
    ["client retried and was charged twice", ["retries/"]],
    ["race two providers and take the faster", ["routes/hedging"]],
    ["mirror traffic to another model", ["routes/shadows"]],
    ["does prompt data leave our servers", ["security/where-data-goes"]],
    ["p99 latency alert", ["telemetry/goals-for-latency-and-errors-slo"]],
    ["simulate 429 from the model", ["testing/a-script-for-the-model", "testing/test-a-fallback"]],
    ["reconcile with the openai invoice", ["usage/invoices"]],
    ["user got 403 and I have the request id", ["usage/why-a-call-was-refused"]],
    ["hide some models from users", ["backends/limit-or-rename-models"]],
    ["user pressed stop, do we pay", ["backends/hang-ups-and-failed-calls"]],
    ["difference between maxJsonBytes and maxFormBytes", ["polygate/limits"]],
    ["rate limmit per kye", ["keys-and-limits/rate-limits"]],
    ["budjet alert", ["budgets/alerts-and-webhooks"]],
    ["memory leak", ["production/sizing-and-memory"]],
    ["the first token takes 20 seconds", ["backends/timeouts-of-a-slow-upstream"]],
    ["I lost the secret of my key", ["keys-and-limits/rotate-a-key"]],
    [
      "SQLITE_BUSY database is locked",
      ["quota/sql-postgresql-mysql-sqlite", "errors/messages-by-their-text", "errors/messages-of-node-and-of-sdks"],
    ],
    ["raise a limit for one day", ["budgets/top-up-and-change-budgets"]],
    [
      "which model wrote this answer",
      ["keys-and-limits/a-record-of-every-call", "keys-and-limits/upstreams-of-a-call", "usage/why-a-call-was-refused"],
    ],
    ["why can't I see my models", ["token-usage/models", "token-usage/"]],
    ["what's happening when the budget's empty", ["budgets/when-a-budget-is-used-up"]],
  ])("answers %s, first or second", (question, sections) => {
    const found = find(question).slice(0, 2);
    const addresses = found.map(({ page, heading }) => `${page}/${heading}`);
    expect(addresses).toSatisfy(() => sections.some((section) => addresses.includes(section)));
  });

  it("answers each question of its page first", () => {
    const links = (pages.get("questions") ?? []).flatMap(textsIn).flatMap(piecesOf);
    const questions = links.flatMap(({ text, href = "" }) => {
      const [, page, heading = ""] = addressOf(href, "questions")?.split("/") ?? [];
      return page === undefined ? [] : [{ text, page, heading }];
    });
    expect(questions.length).toBeGreaterThan(80);
    const missed = questions.filter(({ text, page, heading }) => {
      const [hit] = find(text);
      return hit?.page !== page || hit.heading !== heading;
    });
    expect(missed).toEqual([]);
    expect(find("questions").filter(({ page }) => page === "questions")).toEqual([]);
  });

  it("knows for each section of the guides what people search for, and each phrase for one section alone", () => {
    const lines = Array.from(phrases.matchAll(/^([\w-]+)#([\w-]*): (.*)$/gm), ([, page, heading, words = ""]) => ({
      address: `${page}/${heading}`,
      words: words.split(" | "),
    }));
    expect(lines.filter(({ address }) => !isServed(`#docs/${address.replace(/\/$/, "")}`))).toEqual([]);
    const guides = FILES.filter((file) => !/[/]|README|questions/.test(file)).map((file) => basename(file, ".md"));
    const sections = guides.flatMap((page) =>
      (pages.get(page) ?? []).flatMap((block, at) =>
        block.type === "heading" ? `${page}/${at === 0 ? "" : block.id}` : [],
      ),
    );
    const known = new Map(lines.map(({ address, words }) => [address, words]));
    expect(sections.filter((address) => (known.get(address) ?? []).length < 8)).toEqual([]);
    const all = lines.flatMap(({ words }) => words);
    expect(all.filter((phrase, at) => all.indexOf(phrase) !== at)).toEqual([]);
  });

  it("finds what to do on each alert", () => {
    const rules = readFileSync(new URL("../../grafana/alerts.yaml", import.meta.url), "utf8");
    const alerts = Array.from(rules.matchAll(/- alert: (\w+)$/gm), ([, name = ""]) => name);
    expect(alerts.length).toBeGreaterThan(20);
    const section = /^## When an alert fires$(.*?)^## /ms.exec(texts["operations"] ?? "")?.[1] ?? "";
    expect(alerts.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
    const found = alerts.map((name) => [name, find(name)[0]?.heading]);
    expect(found).toEqual(alerts.map((name) => [name, "when-an-alert-fires"]));
  });

  it("names the words that no section has", () => {
    const { hits, missing } = searchIn({ page: "# Page\n\nA needle in the hay of `myStack`." })(
      "a needle in my haystack, hays or stack",
    );
    expect(hits).toMatchObject([{ page: "page" }]);
    expect(missing).toEqual(["haystack"]);
    expect(search("zeppelin logger").missing).toEqual(["zeppelin"]);
    expect(search("Cannot find module '/x/served.ts'").missing).toEqual([]);
  });

  it("finds a section by the words of its question, and shows its own title", () => {
    const page = "# Page\n\n## Ends\n\nThe hay is taken away.";
    const questions = "# Questions\n\n- [Who eats the needle?](page.md#ends)\n- [Elsewhere?](https://example.com)\n";
    const [hit, ...others] = hitsIn({ page, questions })("needle");
    expect(hit).toMatchObject({
      page: "page",
      heading: "ends",
      title: "Page › Ends",
      excerpt: "The hay is taken away.",
    });
    expect(others).toEqual([]);
  });

  it.each([
    ["page shows 403 origin behind nginx", "admin/login"],
    ["user says key invalid but it's active", "operations/in-an-incident"],
    ["copy keys from staging to production", "keys-and-limits/many-keys"],
    ["openai returns 401 to gateway", "errors/codes"],
    ["provider rejects our api key with 401", "errors/codes"],
    ["currency mismatch between gateways", "usage/"],
    ["least privilege db user", "quota/all-stores-by-one-address"],
    ["who spent the most this month", "usage/reports-and-bills"],
    ["drain a node before maintenance", "production/shutdown"],
    ["haproxy health check", "production/health"],
    ["429 insufficient_quota but budget has money left", "budgets/what-a-running-call-holds"],
    ["give one user a lower limit than the team", "budgets/"],
    ["mysql instead of postgres", "quota/all-stores-by-one-address"],
    ["rlflxIncr is not a function", "keys-and-limits/counters-for-a-fleet"],
    ["what do I do when an alert fires", "operations/when-an-alert-fires"],
    ["customers must keep their keys when I move the database", "operations/move-from-sqlite-to-postgresql"],
    ["does a cancelled stream cost money", "backends/hang-ups-and-failed-calls"],
    ["monthly report", "usage/a-monthly-report-for-finance"],
    ["which database tables does it create", "quota/sql-postgresql-mysql-sqlite"],
    ["add system prompt to every request", "hooks/before"],
    ["log format json", "operations/logs-as-json"],
    ["structured json logs", "operations/logs-as-json"],
    ["rotate database password", "operations/a-database-password-that-changes"],
    ["SLO latency percentile", "telemetry/goals-for-latency-and-errors-slo"],
    ["autovacuum table bloat", "production/sizing-and-memory"],
    ["read only login", "admin/login"],
    ["price table", "prices/"],
    ["postgres setup", "quota/sql-postgresql-mysql-sqlite"],
    ["which model did the customer use", "usage/reports-and-bills"],
    ["why was this call so expensive", "usage/why-a-call-was-refused"],
    ["overhead", "performance/a-call"],
    ["VAT", "usage/invoices"],
    ["reseller margin", "prices/a-margin"],
    ["per model budget", "budgets/one-model"],
    ["use my own auth", "keys-and-limits/your-own-auth"],
    ["block a user", "keys-and-limits/keys"],
    ["insufficient_quota", "errors-by-format/names-on-the-wire"],
    ["suspend customer", "keys-and-limits/keys"],
    ["client aborts charge", "backends/hang-ups-and-failed-calls"],
    ["cancled stream billing", "backends/hang-ups-and-failed-calls"],
    ["fallbak provider", "routes/fallback-when-an-upstream-fails"],
    ["kuberentes", "production/deploy"],
    ["postgress down", "operations/when-the-database-is-down"],
    ["will I be billed twice if my client retries after a network error", "retries/"],
    ["someone published our key on github, what should we do", "keys-and-limits/rotate-a-key"],
    ["can two customers see each other's data", "SECURITY/what-the-gateway-promises"],
    ["store api keys in postgres", "quota/sql-postgresql-mysql-sqlite"],
    ["x-request-id log", "options/failures"],
    ["stream tool calls", "chat-completions/what-is-understood"],
    ["retry timeout upstream", "backends/timeouts-of-a-slow-upstream"],
    ["rate limit per key", "keys-and-limits/rate-limits"],
    ["euro currency", "prices/"],
    ["log prompts audit gdpr", "security/where-prompts-and-answers-are-kept"],
    ["how do I see who spent the most", "usage/reports-and-bills"],
    ["backend.check", "backends/relays"],
    ["max body size limit", "options/limits-and-timeouts"],
  ])("answers %s first", (query, section) => {
    const [hit] = find(query);
    expect(`${hit?.page}/${hit?.heading}`).toBe(section);
  });

  it.each([
    ["top up", "budgets/top-up-and-change-budgets"],
    ["top up a budget", "budgets/top-up-and-change-budgets"],
    ["claude code", "mounting/base-urls-of-clients"],
    ["how do I rotate a key", "keys-and-limits/rotate-a-key"],
    ["rotate an upstream key", "credentials/upstream-keys-that-expire-or-rotate"],
  ])("answers %s first, because the words follow each other there", (question, section) => {
    const [hit] = find(question);
    expect(`${hit?.page}/${hit?.heading}`).toBe(section);
  });

  it.each([
    ["circuit breakers", "routes/circuit-breakers-and-rests"],
    ["stop hammering a dead upstream", "routes/circuit-breakers-and-rests"],
    ["mysql lock timeout", "operations/when-the-database-is-down"],
    ["postgres statement timeout", "operations/when-the-database-is-down"],
    ["turn off a model for everyone", "backends/limit-or-rename-models"],
    ["we dont want gpt-4 anymore for anybody", "backends/limit-or-rename-models"],
    ["customer says he gets 429 and wants to know why", "usage/why-a-call-was-refused"],
    ["report token usage from my backend", "backends/what-a-backend-yields"],
    ["how to disable a hook for one key", "hooks/before"],
    ["moderation only for external customers", "hooks/before"],
    ["sse chunks come all at once", "production/proxies"],
    ["is the first failed provider billed too", "routes/which-upstream-is-asked"],
    ["my handler should answer 422", "errors/errors-of-your-own"],
    ["can customer a read chats of customer b", "SECURITY/what-the-gateway-promises"],
  ])("answers %s first, as operators and developers type it", (question, section) => {
    const [hit] = find(question);
    expect(`${hit?.page}/${hit?.heading}`).toBe(section);
  });

  it.each([
    ["429", "errors/codes"],
    ["401", "errors/codes"],
    ["404", "errors/codes"],
    ["streaming cut", "backends/hang-ups-and-failed-calls"],
    ["multiple servers", "production/several-processes-or-replicas"],
    ["share one key across team", "budgets/"],
    ["circuit breaker", "routes/circuit-breakers-and-rests"],
    ["openrouter", "moving/other-gateways"],
    ["how much latency does it add", "performance/a-call"],
    ["where do I find why a call failed", "options/failures"],
    ["request id of a failed call", "options/failures"],
    ["difference between used and spent", "budgets/words"],
    ["does it slow down my requests", "performance/a-call"],
    ["how to add a new model", "routes/"],
    ["how do I offer a new model to customers", "routes/"],
    ["how many servers do I need for 1000 users", "production/sizing-and-memory"],
    ["is it free for commercial use", "getting-started/"],
    ["brute force guessing of keys", "SECURITY/what-the-gateway-promises"],
    ["protect against guessing api keys", "SECURITY/what-the-gateway-promises"],
    ["who is behind this and how mature is it", "upgrading/"],
    ["penetration test encryption at rest", "SECURITY/encryption-at-rest-and-audits"],
    ["who can see my prompts", "security/where-prompts-and-answers-are-kept"],
    ["how fast is it", "performance/"],
    ["retry another provider when openai is down", "routes/fallback-when-an-upstream-fails"],
    ["failover", "routes/fallback-when-an-upstream-fails"],
    ["switch provider on error", "routes/fallback-when-an-upstream-fails"],
    ["sticky sessions", "routes/affinity-prompt-caching"],
    ["prompt caching cost", "prices/cached-tokens"],
    ["cacheRead price", "prices/cached-tokens"],
    ["test a fallback", "testing/test-a-fallback"],
    ["vitest fallback example", "testing/test-a-fallback"],
    ["fastify metrics", "telemetry/metrics-in-fastify"],
    ["batch api", "moving/what-polygate-does-not-have"],
    ["speech to text", "moving/what-polygate-does-not-have"],
    ["fine tuning", "moving/what-polygate-does-not-have"],
    ["cache answers", "moving/what-polygate-does-not-have"],
    ["fastify not found wrong address", "mounting/fastify"],
    ["koa 404 wrong url", "mounting/koa"],
    ["prompt injection guard", "hooks/"],
    ["jailbreak detection", "hooks/"],
    ["content moderation", "hooks/"],
    ["streaming stops after 60 seconds", "production/proxies"],
    ["idle connection closed by load balancer", "production/proxies"],
    ["count tokens before sending", "messages/"],
    ["GDPR delete data", "security/erase-a-person-gdpr"],
    ["right to be forgotten", "security/erase-a-person-gdpr"],
    ["data retention", "security/where-prompts-and-answers-are-kept"],
    ["which api key header", "mounting/which-header-has-the-api-key"],
    ["authentication header for gemini", "mounting/which-header-has-the-api-key"],
    ["how many requests per second", "busy-keys/"],
    ["license", "getting-started/"],
    ["open source", "getting-started/"],
    ["max_tokens must be at least 2", "messages/options"],
  ])("answers %s among the first three", (question, section) => {
    const found = find(question).slice(0, 3);
    expect(found.map(({ page, heading }) => `${page}/${heading}`)).toContain(section);
  });

  it("shows a line of each section, also of one with nothing but code, or with all its text in sections below", () => {
    const page =
      "# Page\n\n## Empty\n\n### Below\n\nA text.\n\n## Coded\n\n```ts\nconst one = 1;\n\nconst pin = 2;\n```\n";
    const hits = hitsIn({ README: "# Index\n\n- [Page](page.md): about `pins`.\n", page });
    expect(hits("empty")).toMatchObject([{ heading: "empty", excerpt: "A text." }]);
    expect(hits("pin")).toContainEqual(expect.objectContaining({ excerpt: "const pin = 2;" }));
    expect(hits("page")).toContainEqual(expect.objectContaining({ heading: "", excerpt: "about pins." }));
    const words = [
      "token usage",
      "upgrading",
      "playground",
      "production",
      "reference",
      "formats",
      "company.ts",
      "docker",
    ];
    expect(words.flatMap(find).filter(({ excerpt }) => excerpt === "")).toEqual([]);
  });

  it("lists what a stream that breaks off is charged among the first four", () => {
    const found = find("streaming breaks off charged").slice(0, 4);
    expect(found).toContainEqual(expect.objectContaining({ page: "backends", heading: "hang-ups-and-failed-calls" }));
  });

  it.each([
    ["vertex", "credentials", "google-cloud"],
    ["cors", "mounting", "pages-in-a-browser"],
    ["migrate database", "operations", "rolling-deploys-and-migrations"],
    ["azure", "credentials", "azure"],
    ["rate limits", "keys-and-limits", "rate-limits"],
  ])("answers %s by the guide, before the options of that name", (question, page, heading) => {
    expect(find(question)[0]).toMatchObject({ page, heading });
  });

  it.each([
    ["VertexOptions", "polygate-clouds-google", "vertexoptions"],
    ["maxJsonBytes", "polygate", "limits"],
  ])("answers %s by the reference, because it is a name of the code", (name, page, heading) => {
    expect(find(name)[0]).toMatchObject({ page, heading });
  });

  it.each([
    ["createGateway", "polygate", "creategateway"],
    ["toExpressHandler", "polygate-express", "toexpresshandler"],
    ["GatewayError", "polygate-records-and-observers", "gatewayerror"],
    ["openStores", "polygate-stores", "openstores"],
  ])("answers the function or class %s by its entry, first or second", (name, page, heading) => {
    expect(find(name).slice(0, 2)).toContainEqual(expect.objectContaining({ page, heading }));
  });

  // A name leads to its own entry, whatever else has it.
  it.each(Object.keys(texts).filter((page) => /^(?:polygate|headers$)/.test(page)))(
    "answers each name of %s by an entry of this name",
    (page) => {
      const names = namesOf(texts[page]).filter(isShaped);
      const missed = names.filter((name) => {
        const [hit] = find(name);
        return hit === undefined || !`${hit.heading}/${hit.row}`.includes(name.toLowerCase());
      });
      expect(missed).toEqual([]);
    },
  );

  it("answers each command by its entry, with arguments or without, and each flag", () => {
    const headings = Array.from((texts["command-line"] ?? "").matchAll(/^### (.*)$/gm), ([, name = ""]) => name);
    expect(headings.length).toBeGreaterThan(30);
    const wanted = headings.map((name) => `command-line/${name.replaceAll(" ", "-")}`);
    for (const asked of [(name: string) => `polygate ${name}`, (name: string) => `npx polygate ${name} team-a --json`])
      expect(headings.map((name) => find(asked(name))[0]).map((hit) => `${hit?.page}/${hit?.heading}`)).toEqual(wanted);
    const flags = namesOf(texts["command-line"]).filter((name) => name.startsWith("--"));
    expect(flags.filter((flag) => find(flag)[0]?.row.startsWith(flag) !== true)).toEqual([]);
  });

  it("answers each code of an error, and each name of an error on the wire, by its row", () => {
    const codes = Array.from(
      (texts["errors-by-format"] ?? "").matchAll(/^(?:\| |- )`(\w*_\w*)`/gm),
      ([, name = ""]) => name,
    );
    expect(codes.length).toBeGreaterThan(40);
    expect(codes.filter((code) => find(code)[0]?.row.includes(code.toLowerCase()) !== true)).toEqual([]);
  });

  it.each([
    ["`createGateway()`", "polygate", "creategateway", ""],
    ["limits.deadlineMs", "polygate", "limits", "deadlinems-number"],
    ["creategateway", "polygate", "creategateway", ""],
    ["X-Request-Id", "headers", "of-answers", "request-id-x-request-id"],
    ["Hook", "polygate-backends-and-hooks", "hook", ""],
    ["route", "routes", "", ""],
    ["polygate/stores/sql", "polygate-stores-sql", "", ""],
  ])("takes %s for a name or for a word", (query, page, heading, row) => {
    expect(find(query)[0]).toMatchObject({ page, heading, row });
  });

  it.each([
    ["what does x-should-retry mean", "headers", "of-answers", /^x-should-retry/],
    ["what is the default of maxCallsPerKey?", "polygate", "limits", /^maxcallsperkey/],
    ["columns of polygate_calls", "sql-tables", "polygate_calls", /^$/],
    ["onBudget", "polygate-stores", "openstoresoptions", /^onbudget/],
  ])("answers %s by the entry of the name", (question, page, heading, row) => {
    expect(find(question)[0]).toMatchObject({ page, heading, row: expect.stringMatching(row) });
  });

  it("shows the entry of a name third where a question has other words as well", () => {
    expect(find("x-request-id log").slice(0, 3)).toMatchObject([{ page: "options" }, {}, { page: "headers" }]);
    expect(find("what do x-should-retry and retry-after mean").slice(0, 2)).toMatchObject([
      { row: expect.stringMatching(/^x-should-retry/) },
      { page: expect.not.stringMatching(/^headers/) },
    ]);
  });

  it("takes the name of a product for no name of the code", () => {
    const pages = { guide: "# Guide\n\nA needle of AcmeLab.", "polygate-x": "# X\n\nA needle needle of AcmeLab." };
    expect(hitsIn(pages)("AcmeLab needle").map(({ page }) => page)).toEqual(["guide", "polygate-x"]);
  });

  it("leaves out the rest of a contraction", () => {
    const pages = { a: "# A\n\nThe team's needle isn't here, and won't be.", b: "# B\n\nThe price of a needle." };
    expect(hitsIn(pages)("what's the needle's price")[0]).toMatchObject({ page: "b" });
    expect(find("what's a seal")[0]).toMatchObject({ page: "messages", heading: "seals" });
  });

  it("answers a word that is an option as well by the guide, and then by the option", () => {
    for (const word of ["cors", "hooks", "quotas", "limits"])
      expect(
        find(word)
          .map(({ page }) => page)
          .slice(0, 3),
      ).toEqual([expect.not.stringMatching(/^polygate/), expect.not.stringMatching(/^polygate/), "polygate"]);
    expect(find("preflight").slice(0, 3)).toContainEqual(
      expect.objectContaining({ row: expect.stringMatching(/^preflight/) }),
    );
  });

  it("ranks sections about other products low, unless the query names a product", () => {
    const words = ["budget of a team", "virtual keys", "rate limits per key", "end users", "tags", "keep same keys"];
    for (const word of words)
      expect(
        find(word)
          .slice(0, 3)
          .filter(({ page, heading }) => page === "moving" && !heading.startsWith("what-")),
      ).toEqual([]);
    expect(find("budgets of litellm teams")[0]).toMatchObject({ page: "moving", heading: "keys-and-budgets" });
    expect(find("tokens from new-api")[0]).toMatchObject({ page: "moving", heading: "other-gateways" });
    const text = "# A\n\nA needle in hay.";
    const search = hitsIn({ a: text, b: text.replace("A needle", "A needle needle") }, "only b#: acme\n");
    expect(search("needle").map(({ page }) => page)).toEqual(["a", "b"]);
    expect(search("needle of acme").map(({ page }) => page)).toEqual(["b", "a"]);
  });

  it("ranks words that follow each other before the same words apart, and those of a heading first", () => {
    const apart = "A hay for the blue. Then a needle of another hay, and blue of a needle, needle, needle.";
    const pages = {
      apart: `# Hay\n\n${apart}`,
      text: "# Hay\n\nA needle in blue.",
      heading: "# The needle of blue\n\nHay.",
    };
    expect(hitsIn(pages)("needle blue").map(({ page }) => page)).toEqual(["heading", "text", "apart"]);
  });

  it("leaves out words that are longer than any of the docs, such as a pasted picture", () => {
    const asked = find("budget of a team");
    for (const pasted of ["a".repeat(1_000_000), "a-".repeat(500_000), "漢".repeat(1_000_000), "aB".repeat(2_000)])
      expect(find(`budget of a team ${pasted}`).slice(0, 1)).toEqual(asked.slice(0, 1));
  });

  it("shows the part of a section that has the words", () => {
    const [hit] = find("who pays when a client hangs up");
    expect(hit).toMatchObject({ page: "backends", heading: "hang-ups-and-failed-calls" });
    const page =
      "# Page\n\n" +
      "A beginning of many words. ".repeat(20) +
      "Here the needle lies in the hay. " +
      "An end. ".repeat(40);
    const [found] = hitsIn({ page })("needle in the hay");
    expect(found?.excerpt).toMatch(/^Here the needle lies in the hay\. An end\. .*An end\.$/);
    expect(find("budget")[0]?.excerpt).not.toMatch(/^…/);
  });

  it("shows the beginning of a section whose parts have few of the words", () => {
    const page = "# Page\n\nA first sentence.\n\nThe hay is red.\n\nA barn is blue.\n\nThe roof is green.\n";
    const shown = (query: string) => hitsIn({ page })(query).map(({ excerpt }) => excerpt);
    expect(shown("hay, barn and roof")).toEqual(["A first sentence."]);
    expect(shown("red hay below the roof")).toEqual(["The hay is red."]);
  });

  it("shows the row, the item or the sentence with the most words, and marks them by their stems", () => {
    const page = `# Page

A table:

| Name | Meaning |
| ---- | ------- |
| \`first\` | The beginning. |
| \`maxNeedles\` | The most needles in the hay. |

- An item.
- A needle that refuses the hay, and a barn.

A needle. The hay is in a barn with a roof.

\`\`\`ts
const barn = 1;
const roof = 2;
\`\`\`
`;
    const shown = (query: string): string =>
      hitsIn({ page })(query)
        .map(({ excerpt, stems }) =>
          markedIn(excerpt, stems)
            .map(({ text, isMarked }) => (isMarked ? `[${text}]` : text))
            .join(""),
        )
        .join("");
    expect(shown("most needles")).toBe("max[Needles] · The most [needles] in the hay.");
    expect(shown("rejected hays")).toBe("A needle that [refuses] the [hay], and a barn.");
    expect(shown("roofs")).toBe("The hay is in a barn with a [roof].");
    expect(shown("roof const")).toBe("[const] [roof] = 2;");
    expect(markedIn("`maxJsonBytes` and a-b", new Set(["json", "b"]))).toEqual([
      { text: "`max", isMarked: false },
      { text: "Json", isMarked: true },
      { text: "Bytes` and a-", isMarked: false },
      { text: "b", isMarked: true },
    ]);
    expect(find("retry-after header").slice(0, 1)[0]?.excerpt.length).toBeLessThan(200);
  });

  // Errors as people paste them, and the beginning of the remedy.
  it.each([
    [
      "TypeError: createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not undefined.",
      "memoryQuotaStore",
    ],
    ["RangeError: limits.deadlineMs must be a positive integer, not 0", "A limit is an integer"],
    ["relay: baseUrl is not a URL. Write the whole address, such as http://localhost:8080/v1.", "The address of"],
    ["relay: baseUrl is the address of a route of chat-completions, but the format is messages.", "Choose the format"],
    ['"ai" is no prefix: it must be a path as browsers send it, such as "/ai"', "Write /ai"],
    ["createGateway: ports does not exist; write ...stores.ports.", "Spread the ports"],
    ["The address of the store is no valid URL that begins with postgres://.", "Escape the password"],
    ['There is no file gateway.db: "polygate keys migrate" makes it.', "Run the command"],
    ["No store is given. Name it with --store, or in POLYGATE_STORE", "Set POLYGATE_STORE"],
    ["served.ts cannot be loaded: Cannot find module '/x/served.ts'", "Correct the file"],
    ["The stores have a problem: postgres://***@db/x cannot be used: connect ECONNREFUSED", "Read the cause"],
    ['This store needs the package "kysely": npm install kysely', "Install it"],
    ["This store needs the package", "Install it"],
    ["Did you mean POST /v1/messages", "Write what the message names"],
    ["There is no route POST /messages", "Correct the client"],
    ["The store's schema is version", "Migrate"],
    ["polygate needs Node 22.19 or newer; this is v20.20.2.", "Update Node"],
    ['TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension ".ts" for /x/server.ts', "Node is older"],
    ["Error: listen EADDRINUSE: address already in use 127.0.0.1:3000", "Another server"],
    ["NotFoundError: 404 status code (no body)", "The base URL"],
    ["AuthenticationError: 401 The API key is not valid.", "It is unknown or revoked"],
    ["429 The quota of this API key is used up.", "Grant units"],
    ["429 The remaining quota of this API key is too small for this request. Units needed: 3212", "Lower the output"],
    ['400 max_completion_tokens: must be at most 50 for the model "small"', "Ask for less"],
    ['404 There is no model "nope".', "The name is wrong, or not listed"],
    ["anthropic-version: the header is required (compat-version is read as well)", "Send anthropic-version"],
    ["The request body is not valid JSON.", "Check quotes"],
    ["The model backend is overloaded.", "add an upstream"],
    ["504 The request took longer than the gateway allows.", "Raise limits.deadlineMs"],
    ["The model backend's answer broke off.", "The upstream ended it"],
    ["The upstream at http://model.internal has a name that does not resolve.", "Correct the name"],
    ["The upstream at https://localhost:8080 does not speak TLS. http may be meant.", "Write http:"],
    ["405 This route takes POST, not GET.", "Use the method"],
    ["415 The request body must not be compressed (content-encoding).", "Send it without"],
    ['404 A model has no method "generateText".', "Write :generateContent"],
    ["TypeError: relay: apiKey must be visible ASCII characters.", "The key has a line break"],
    ["PolygateWarning: A request of a client missed the gateway and got 404: the base URL", "Correct the client"],
    ["cause: SettingMistake: The upstream at http://localhost", "A setting of yours"],
    ["APIConnectionTimeoutError: Request timed out.", "raise the SDK's timeout"],
    ["Error: self-signed certificate in certificate chain", "Start Node with"],
    ["code: 'SELF_SIGNED_CERT_IN_CHAIN'", "Start Node with"],
    ["TypeError: expect(...).toHaveCharged is not a function", "expect.extend"],
    ["Error: Invalid Chai property: toHaveCharged", "expect.extend"],
  ])("knows a remedy for %s", (text, remedy) => {
    const [hit] = find(text);
    const page = expect.stringMatching(/^(?:errors|error-messages)$/);
    expect(hit).toMatchObject({ page, excerpt: expect.stringContaining(remedy) });
  });

  it("names the changelog last", () => {
    expect(find("held quota")[0]?.page).not.toMatch(/\.ts$/);
    const found = ["stream cut off client hangs up who pays", "gateway", "added fixed changed"].map(find);
    for (const hits of found) {
      const pages = hits.map(({ page }) => page);
      const first = pages.indexOf("CHANGELOG");
      expect(first === -1 || pages.slice(first).every((page) => page === "CHANGELOG" || page === "README")).toBe(true);
    }
    expect(
      hitsIn({ CHANGELOG: "# Changelog\n\nA needle.", other: "# Other\n\nA hay, with a needle." })("needle"),
    ).toMatchObject([{ page: "other" }, { page: "CHANGELOG" }]);
  });

  it("forgives a slip, and leads to headings that are there", () => {
    expect(find("idempotancy")[0]?.page).toBe("retries");
    const addresses = ["quota", "route", "error", "stream"].flatMap((query) =>
      find(query).map(({ page, heading }) => (heading === "" ? `#docs/${page}` : `#docs/${page}/${heading}`)),
    );
    expect(addresses.filter((address) => !isServed(address))).toEqual([]);
  });

  it("finds a dozen sections at most, whatever is asked", () => {
    for (const odd of ["", " ", "a", "*", "(", "`", "---", "the ".repeat(1_000), "ẞ", "\u0000"])
      expect(find(odd).length).toBeLessThanOrEqual(12);
  });
});

it("serves the docs for language models, with links to the pages that it serves", () => {
  const llms = served.find("/llms.txt");
  expect(llms).toMatchObject({ type: "text/plain; charset=utf-8", text: expect.stringMatching(/^# polygate\n\n> /) });
  const links = Array.from(llms?.text.matchAll(/\]\(([^)]+)\)/g) ?? [], ([, link = ""]) => link);
  expect(links.length).toBeGreaterThan(30);
  expect(links.filter((link) => !served.find(link))).toEqual([]);
  expect(served.find("/llms-full.txt")?.text).toContain("# Quota stores");
});
