/** The configuration of `polygate serve`. */

import type { AdminHandlerOptions } from "../admin/http/index.ts";
import type { AdminPageOptions } from "../admin/page/index.ts";
import type { GatewayOptions } from "../index.ts";
import { assertOptions, fieldsOf, givenInstead, integer, listOf, MAX_TIMER_MS, shown } from "../options.ts";
import { RECORDER_SHAPES } from "../stores/calls.ts";
import type { OpenedStores, OpenStoresOptions, RecorderOptions } from "../stores/open/index.ts";
import { STORES_SHAPES } from "../stores/open/options.ts";
import { SPEND_COLUMNS, type SpendColumn } from "../telemetry/spend.ts";

/** The options of `createGateway`. Those that the stores fill in may be missing. */
export type ServedGateway = Omit<GatewayOptions, "quotas"> & Partial<Pick<GatewayOptions, "quotas">>;

/** The admin of a server, with its page. */
export interface ServerAdminOptions extends AdminPageOptions {
  /** The host's own login, as in `adminHandler`: returns the user, or undefined for a stranger. */
  readonly authorize: AdminHandlerOptions["authorize"];
  /** The path of the admin, with no route of the server below it. Default: `/admin`. */
  readonly path?: string;
  /** Is told of each failure of the admin, as in `adminHandler`. Default: prints it. */
  readonly onFailure?: AdminHandlerOptions["onFailure"];
}

/** The metrics of a server for Prometheus. They have no key: only Prometheus should reach their port. */
export interface ServerMetricsOptions {
  /** The port, from 0 (any free port) to 65,535. It cannot be the port of the gateway. */
  readonly port: number;
  /** The address to listen on, such as `0.0.0.0` in a container. Default: 127.0.0.1. */
  readonly host?: string;
  /** The path of the metrics. Default: `/metrics`. */
  readonly path?: string;
  /** The labels of spend, as in `openTelemetry`: `group`, `budget` and `key`. Default: `group` and `budget`. */
  readonly spendBy?: readonly SpendColumn[];
}

/** A gateway as a server of its own: the default export of the file that `polygate serve` runs. */
export interface ServerOptions {
  /** Returns the options of the gateway. The stores fill in `quotas`, `replayStore` and `responseStore`. */
  gateway(stores: OpenedStores): ServedGateway | Promise<ServedGateway>;
  /** The address of the stores: `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Default: the variable `POLYGATE_STORE`. */
  readonly stores?: string;
  /** Options of `openStores`. */
  readonly storeOptions?: OpenStoresOptions;
  /** Options of the record of calls that SQL stores keep; false keeps none. Default: a record of 30 days, in the currency of the prices. */
  readonly record?: RecorderOptions | false;
  /** The path of the gateway. Default: the root. */
  readonly prefix?: string;
  /** The admin and its page. Default: none. */
  readonly admin?: ServerAdminOptions;
  /** Metrics for Prometheus at a port of their own, with those of teams and budgets. Needs packages of OpenTelemetry. Default: none. */
  readonly metrics?: ServerMetricsOptions;
  /** The address to listen on. Default: the variable `HOST`, or 127.0.0.1. */
  readonly host?: string;
  /** The port, from 0 (any free port) to 65,535. Default: the variable `PORT`, or 3000. */
  readonly port?: number;
  /**
   * The time between the signal that tells the process to end and its end, in milliseconds: `/readyz` answers 503 at once, and calls are served
   * meanwhile, so that a load balancer can send its calls elsewhere. `closeMs` begins after it. From 0 to 2³¹ − 1; default: 0.
   */
  readonly closeDelayMs?: number;
  /**
   * The time for calls in flight to finish when the process is told to end, in milliseconds. A second signal ends the process at once. Default:
   * 60,000.
   */
  readonly closeMs?: number;
  /** Runs last, after the stores are closed, for at most 5 seconds: for example to flush metrics. */
  onClose?(): unknown;
}

/**
 * Checks the configuration of `polygate serve`, and returns it.
 *
 * @throws TypeError or RangeError for an option that does not exist or has a wrong value.
 * @example export default defineServer({ stores: "sqlite:gateway.db", gateway: () => ({ backend }) });
 */
export function defineServer(config: ServerOptions): ServerOptions {
  const given = takenForServer(config);
  if (given !== undefined) throw new TypeError(`defineServer: ${AN_EXAMPLE}, not ${given}.`);
  assertOptions<ServerOptions>("defineServer", config, {
    gateway: assertMakesOptions,
    stores: "string?",
    storeOptions: { optional: fieldsOf<OpenStoresOptions>(STORES_SHAPES) },
    record: { optional: assertRecord },
    prefix: "string?",
    admin: { optional: fieldsOf<ServerAdminOptions>(ADMIN_SHAPES) },
    metrics: {
      optional: fieldsOf<ServerMetricsOptions>({
        port: integer(0, 65_535),
        host: "string?",
        path: "string?",
        spendBy: { optional: listOf(SPEND_COLUMNS) },
      }),
    },
    host: "string?",
    port: { optional: integer(0, 65_535) },
    closeDelayMs: { optional: integer(0, MAX_TIMER_MS) },
    closeMs: "timerMs?",
    onClose: "function?",
  });
  return config;
}

const AN_EXAMPLE = "expects { gateway: () => ({ backend, … }) }";

/** Names what was probably given in place of a server; undefined for anything else. */
function takenForServer(config: unknown): string | undefined {
  const names = new Set(typeof config === "object" && config !== null ? Object.keys(config) : []);
  if (names.has("backend") && !names.has("gateway")) return "the options of createGateway alone";
  const given = givenInstead(config);
  return given === "a gateway" ? `${given}: the server makes it of the options of createGateway` : given;
}

function assertMakesOptions(path: string, value: unknown): void {
  if (typeof value !== "function")
    throw new TypeError(
      `${path} must be a function that returns the options of createGateway, not ${givenInstead(value) ?? shown(value)}.`,
    );
}

/** Throws a TypeError for a result of the function `gateway` that is no object of options. */
export function assertGatewayOptions(options: unknown): void {
  const given = givenInstead(options);
  if (given !== undefined || typeof options !== "object" || options === null || Array.isArray(options))
    throw new TypeError(
      `gateway must return the options of createGateway, such as { backend }, not ${given ?? shown(options)}.`,
    );
}

const ADMIN_SHAPES = {
  authorize: "function",
  path: "string?",
  onFailure: "function?",
  title: "string?",
  currency: "string?",
  loginUrl: "string?",
  logoutUrl: "string?",
} as const;

function assertRecord(path: string, value: unknown): void {
  if (value !== false) assertOptions<RecorderOptions>(path, value, RECORDER_SHAPES);
}
