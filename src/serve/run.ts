/** Runs `polygate serve`: a gateway of a configuration file, with its stores, health, admin, and an orderly end. */

import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { relative, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type NodeHandler, toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { adminHandler } from "../admin/http/index.ts";
import { adminPage } from "../admin/page/index.ts";
import { type CallRecord, createGateway, type Gateway, type ModelBackend } from "../index.ts";
import { hasMethod, oneLine, printAsJson, printError, printInfo } from "../options.ts";
import { type Clock, systemClock, within } from "../ports/clock.ts";
import { describeProblem, noteOfEnvFile, UsageError } from "../stores/open/connection.ts";
import { type OpenedStores, openStores } from "../stores/open/index.ts";
import { assertGatewayOptions, defineServer, type ServerAdminOptions, type ServerOptions } from "./config.ts";
import { type ServedMetrics, servedMetrics } from "./metrics.ts";
import { listen, onEnd, type Place, placeOf, type ServerFlags } from "./process.ts";

/** The time for clients to read the ends of their answers, and for `onClose` of the host, in milliseconds. */
const FAREWELL_MS = 5_000;

/** Serves the gateway of a file, and prints its address. Rejects with the reason when that cannot be. */
export async function serve(file: string, flags: ServerFlags = {}): Promise<void> {
  if (flags.json) printAsJson();
  // Without this, Node would end the process with a warning about code of this package.
  const onStuck = (): never => {
    printError(`${oneLine(file)} waits for a promise that never settles.`);
    process.exit(1);
  };
  process.once("beforeExit", onStuck);
  try {
    await run(file, flags);
  } finally {
    process.off("beforeExit", onStuck);
  }
}

async function run(file: string, flags: ServerFlags): Promise<void> {
  const config = await configIn(file);
  // By itself, the admin prints text.
  const admin = config.admin && { ...(flags.json && { onFailure: printAdminFailure }), ...config.admin };
  const place = placeOf(flags.host || config.host, flags.port ?? config.port);
  const address = flags.store ?? config.stores ?? process.env["POLYGATE_STORE"] ?? "";
  if (address === "")
    throw new UsageError(
      "No store is given. Name it as stores in the configuration, with --store, or in POLYGATE_STORE.",
    );
  const origin =
    flags.store !== undefined
      ? "--store"
      : config.stores !== undefined
        ? `stores of ${oneLine(file)}`
        : "POLYGATE_STORE";
  if (origin === "POLYGATE_STORE") {
    const note = noteOfEnvFile(address, await readFile(".env", "utf8").catch(() => ""));
    if (note !== undefined) printError(note);
  }
  const stores = await openStores(address, config.storeOptions).catch((error: unknown) => {
    const { cause } = error as Error;
    throw cause instanceof UsageError ? new UsageError(`${origin}: ${cause.message}`) : error;
  });
  let server: Started;
  try {
    server = await start({ ...config, ...(admin && { admin }) }, stores, place, flags.json);
  } catch (error) {
    await stores.close();
    // A wrong option of the record, the gateway or the admin does not name the file that it stands in.
    if (!(error instanceof Error && isOfCode(error))) throw error;
    throw new TypeError(`${oneLine(file)}: ${error.message}${await errorPlaceOf(error, file)}`, { cause: error });
  }
  const { prefix = "" } = config;
  onEnd(() => void close(config, stores, server));
  const ways = `health at /healthz and /readyz${admin ? `, admin at ${pathOf(admin)}` : ""}${server.metricsUrl ? `, metrics at ${server.metricsUrl}` : ""}`;
  printInfo(`polygate serves ${server.url}${prefix} (${ways})`);
  await tellProblems(server.backend);
}

/** Says in a line what is wrong with each upstream, such as a refused key. The server serves meanwhile. */
async function tellProblems(backend: ModelBackend): Promise<void> {
  if (!hasMethod(backend, "check")) return;
  try {
    // A relay finds at most one problem; a route one for each upstream.
    const found = [await (backend as CheckedBackend).check()].flat();
    for (const { upstream = backend.name, problem } of found)
      if (problem !== undefined)
        printError(oneLine(`The upstream${upstream ? ` ${upstream}` : ""} has a problem: ${problem}`));
  } catch (error) {
    printError(`The check of the upstreams has failed: ${describeProblem(error)}`);
  }
}

/** The result of a check. Only routes name the upstream. */
interface CheckFinding {
  readonly upstream?: string;
  readonly problem?: string | undefined;
}

type CheckedBackend = ModelBackend & { check(): Promise<CheckFinding | readonly CheckFinding[]> };

/** Ends the server and the process. A part that fails or hangs does not keep the next part from its end. */
async function close(
  config: ServerOptions,
  stores: OpenedStores,
  { server, clock, gateway, backend, metrics, leave }: Started,
): Promise<void> {
  const { closeDelayMs = 0, closeMs = 60_000 } = config;
  leave();
  if (closeDelayMs > 0) {
    printInfo(`Not ready; calls are served for ${closeDelayMs / 1000} s more. A second signal ends at once.`);
    await new Promise<void>((over) => void clock.after(closeDelayMs, over));
  }
  const calls = gateway.liveCallCount();
  if (calls > 0)
    printInfo(
      `${calls} ${calls === 1 ? "call" : "calls"} in flight; waiting up to ${closeMs / 1000} s. A second signal ends at once.`,
    );
  // The gateway takes no calls from here on, and its calls in flight finish.
  await gateway.close({ deadlineMs: closeMs });
  if (calls > 0) printInfo("The last call has ended.");
  await soon(new Promise((closed) => void server.close(closed)));
  server.closeAllConnections();
  if (hasMethod(backend, "close"))
    await soon(end("The close of the backend", () => (backend as ModelBackend & { close(): unknown }).close()));
  metrics?.close();
  await end("The close of the stores", () => stores.close());
  await soon(end("onClose", () => config.onClose?.()));
  printInfo("Stopped.");
  process.exit();
}

/** Ends a part. Prints its failure, after which the process ends with the code 1. */
const end = (part: string, work: () => unknown): Promise<unknown> =>
  Promise.resolve()
    .then(work)
    .catch((error: unknown) => {
      process.exitCode = 1;
      printError(`${part} has failed: ${describeProblem(error)}`);
    });

/** Waits for the end of work, but not for work that hangs. */
const soon = (work: Promise<unknown>): Promise<unknown> => within(work, FAREWELL_MS, systemClock);

interface Started {
  readonly url: string;
  readonly server: Server;
  readonly clock: Clock;
  readonly gateway: Gateway;
  readonly backend: ModelBackend;
  readonly metrics: ServedMetrics | undefined;
  readonly metricsUrl: string | undefined;
  /** Lets `/readyz` answer 503 from now on. */
  readonly leave: () => void;
}

async function start(
  config: ServerOptions,
  stores: OpenedStores,
  place: Place,
  printsCalls: boolean = false,
): Promise<Started> {
  const { prefix = "", admin, record = {} } = config;
  // Redis keeps no calls.
  const isSql = stores.ports.responseStore !== undefined;
  const own = await config.gateway(stores);
  assertGatewayOptions(own);
  if (config.metrics && own.observer)
    throw new TypeError("metrics are an observer of the gateway, which has an observer already. Remove one of both.");
  if (config.metrics && place.port !== 0 && config.metrics.port === place.port)
    throw new RangeError(`metrics.port: ${place.port} is the port of the gateway. Choose another port for metrics.`);
  const metrics = config.metrics && (await servedMetrics(config.metrics, record ? record.groupOf : undefined));
  const recorder = record !== false && isSql ? stores.recorder(record) : undefined;
  const onCall = (call: CallRecord): unknown => {
    recorder?.(call);
    if (printsCalls && !own.onFailure) printFailedCall(call);
    return own.onCall?.(call);
  };
  // `createGateway` refuses this currency if the prices are in another one, or missing.
  const currency = recorder?.currency ?? admin?.currency;
  const gateway = createGateway({
    ...stores.ports,
    ...own,
    ...(metrics && { observer: metrics.observer }),
    // A recorder of the host may have a currency of its own.
    ...((recorder ?? currency ?? printsCalls) && {
      onCall: Object.assign(onCall, own.onCall, currency && { currency }),
    }),
  });
  if (metrics && !metrics.nameModels() && !hasMethod(own.backend, "models"))
    printError(
      "metrics: no model has a name, so all share the label _OTHER. Give each model a row with its exact name in priceTable, or a route.",
    );
  const answer = toNodeHandler(gateway, { prefix });
  if (admin) assertFree(pathOf(admin), prefix, gateway);
  const answerAdmin = admin && adminOf(admin, gateway, stores, isSql);
  let isLeaving = false;
  const server = createServer({ shouldUpgradeCallback: wantsWebSocket }, (req, res) => {
    if (/^\/(?:healthz|readyz)(?:\?|$)/.test(req.url ?? "")) return void answerHealth(gateway, isLeaving, req, res);
    // Without a next handler, the gateway tells the client which addresses are right.
    const rest = (error?: Error): void => (error ? void res.writeHead(500).end() : answer(req, res));
    answer(req, res, (error) => (error || !answerAdmin ? rest(error) : answerAdmin(req, res, rest)));
  });
  // Many load balancers keep idle connections for a minute. A call on a connection that the server closes at this moment fails with 502.
  server.keepAliveTimeout = 72_000;
  server.on("upgrade", toUpgradeHandler(gateway, { prefix }));
  // Tells `onFailure` what the store lacks, such as a migration, before calls come.
  await gateway.health();
  const metricsUrl = await metrics?.start(own.quotas ?? stores.ports.quotas, currency ?? gateway.currency);
  return {
    url: await listen(server, place),
    metricsUrl,
    metrics,
    server,
    clock: own.clock ?? systemClock,
    gateway,
    backend: own.backend,
    leave: () => void (isLeaving = true),
  };
}

/** False for Java's client, which asks for an upgrade to HTTP/2 with each request, and takes an answer without one. */
const wantsWebSocket = ({ headers }: IncomingMessage): boolean => /^websocket$/i.test(headers.upgrade ?? "");

/** Says that no attempt has answered a call. The gateway has printed each failed attempt, which another may follow. */
function printFailedCall({ requestId, outcome, errorCode: code, attempts }: CallRecord): void {
  if (outcome !== "failed" || attempts.at(-1)?.errorCode === undefined) return;
  printError(`polygate: ${requestId} failed (${code}): attempts: ${attempts.length}`, { requestId, code });
}

function printAdminFailure(error: unknown): void {
  const stack = error instanceof Error ? error.stack : undefined;
  printError(`polygate: a request of the admin has failed: ${describeProblem(error)}`, { stack });
}

const pathOf = ({ path = "/admin" }: ServerAdminOptions): string => path;

/** Throws for a path of the admin with a route that the server answers in the admin's place. */
function assertFree(path: string, prefix: string, { endpoints }: Gateway): void {
  const [root = "", gateway = ""] = [path, prefix].map((one) => one.replace(/\/+$/, ""));
  // An admin at the root, or at the path of the gateway, has no routes like those of the server.
  const ofGateway = root.startsWith(`${gateway}/`) ? endpoints.map((one) => `${gateway}${one.path}`) : [];
  const routes = root === "" ? [] : ["/healthz", "/readyz", ...ofGateway];
  const taken = routes.find((route) => `${route}/`.startsWith(`${root}/`));
  if (taken !== undefined)
    throw new TypeError(
      `admin.path: ${path} has the route ${taken} of the server in it. Choose another path, such as /admin.`,
    );
}

function adminOf(admin: ServerAdminOptions, gateway: Gateway, stores: OpenedStores, isSql: boolean): NodeHandler {
  const { authorize, path: _path, onFailure, ...page } = admin;
  const handler = adminHandler(stores.ports.quotas, {
    authorize,
    gateway,
    ...(isSql && { audit: stores.auditLog, calls: stores.calls }),
    replayStore: stores.ports.replayStore,
    ...(onFailure && { onFailure }),
    page: adminPage(page),
  });
  return toNodeHandler(handler, { prefix: pathOf(admin) });
}

/** Answers `/healthz` while the process runs, and `/readyz` with 503 when the gateway should get no calls. Anybody may ask: no details. */
async function answerHealth(
  gateway: Gateway,
  isLeaving: boolean,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  if (req.url?.startsWith("/healthz")) return json(res, 200, { ok: true });
  const ready = !isLeaving && (await gateway.health()).ready;
  json(res, ready ? 200 : 503, { ready });
}

function json(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" }).end(JSON.stringify(body));
}

/** The files that Node loads as code. */
const MODULE = /\.[cm]?[jt]s$/;
const FIRST_LINE = "export default defineServer({ gateway: () => ({ backend }) })";

/** Loads the configuration. Throws a TypeError that names the file for all that is wrong with it. */
async function configIn(file: string): Promise<ServerOptions> {
  const shown = oneLine(file);
  const path = resolve(file);
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw new UsageError(`There is no file ${shown} to serve.`);
  if (!MODULE.test(path))
    throw new UsageError(
      `${shown} is no module. polygate serve takes a file of TypeScript or JavaScript (.ts, .mts, .js or .mjs) with the line: ${FIRST_LINE}`,
    );
  let loaded: { readonly default?: unknown };
  try {
    loaded = (await import(pathToFileURL(path).href)) as typeof loaded;
  } catch (error) {
    const place = await errorPlaceOf(error, path);
    throw new TypeError(`${shown} cannot be loaded: ${reasonOf(error, place)}`, { cause: error });
  }
  if (loaded.default === undefined) throw new TypeError(`${shown} has no default export. Write: ${FIRST_LINE}`);
  try {
    return defineServer(loaded.default as ServerOptions);
  } catch (error) {
    throw new TypeError(`${shown}: ${reasonOf(error)}`, { cause: error });
  }
}

/** @param place The end of the sentence for an error of code, such as ` at gateway.ts:3:11`. */
function reasonOf(error: unknown, place: string = ""): string {
  if (!(error instanceof Error)) return String(error);
  if ((error as NodeJS.ErrnoException).code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX")
    return `Node removes types from TypeScript, and translates nothing else: no enum, namespace or parameter property. ${error.message}${place}`;
  const [, missing] = /^Cannot find package '([^']+)' imported from /.exec(error.message) ?? [];
  if (missing !== undefined) return `the package "${missing}" is missing: npm install ${missing}`;
  if (!(error instanceof SyntaxError)) return error.message + place;
  const isModule = /outside a module$|^Unexpected token 'export'/.test(error.message);
  const advice =
    '. Its package.json has no "type": "module". Run: npm pkg set type=module. Or give the file the ending .mts or .mjs.';
  return `${error.name}: ${error.message}${isModule ? advice : place}`;
}

/** The longest time in which Node reads a file once more for the place of its error, in milliseconds. */
const CHECK_MS = 5_000;

/**
 * Returns the place of an error in the host's code, such as ` at gateway.ts:3:11`, also of a call that this package has refused. Empty for an
 * error that the host throws in words.
 */
async function errorPlaceOf(error: unknown, path: string): Promise<string> {
  if (!(error instanceof Error)) return "";
  const { stack = "" } = error;
  // Node tells the place in TypeScript, but that in JavaScript only as it ends.
  if (error instanceof SyntaxError) return placeIn(stack) || placeIn(await linked(path));
  const frames = stack.split(/\n    at /).slice(1);
  const first = frames.findIndex((frame) => !isOwn(frame));
  // Other code of the host has thrown the error, or Node has, where this line of the stack is of a file.
  const [, url = "", at] = /^(?:.* \()?(file:.*?):(\d+:\d+)\)?$/.exec(frames[first] ?? "") ?? [];
  if (url === "" || !isOfCode(error)) return "";
  const place = `${shownPath(url)}:${at}`;
  if (!error.message.endsWith(".")) return ` at ${place}`;
  return first > 0 ? ` See ${place}.` : "";
}

/** The folder of this package, as addresses in stacks begin. */
const [HOME = ""] = /^.*\/(?=(?:src|dist)\/)/.exec(import.meta.url) ?? [];

/** Tells whether a line of a stack is of the code of this package. */
const isOwn = (frame: string): boolean =>
  ["src", "adapters", "dist"].some((folder) => frame.includes(`${HOME}${folder}/`));

/** True for an error that Node throws for code. Another realm has classes of its own. */
const isOfCode = ({ name }: Error): boolean => /^(?:Type|Reference|Range)Error$/.test(name);

/** Returns what Node says of the syntax of a file and of all that it imports, without running them: the first import ends the process. */
function linked(path: string): Promise<string> {
  const imports = `import "data:text/javascript,process.exit()"; import ${JSON.stringify(pathToFileURL(path).href)};`;
  const args = ["--input-type=module", "--eval", imports];
  return new Promise((told) => {
    execFile(process.execPath, args, { timeout: CHECK_MS }, (_error, _stdout, stderr) => told(stderr));
  });
}

/** Reads the place of an error from its head: the file and the line, then lines of the file up to a mark below the column, if any. */
function placeIn(head: string): string {
  const [, file, line] = /^(\S.*):(\d+)\n/.exec(head) ?? [];
  if (file === undefined) return "";
  const [, indent] = /^.*\n(?:.*\n){0,4}?( *)\^/.exec(head) ?? [];
  return ` at ${shownPath(file)}:${line}${indent === undefined ? "" : `:${indent.length + 1}`}`;
}

const shownPath = (file: string): string =>
  oneLine(relative(process.cwd(), file.startsWith("file:") ? fileURLToPath(file) : file));
