/** Mounts a gateway in Express 4 and 5, which remove the mount's prefix from the request's address themselves. */

import type { IncomingMessage, ServerResponse } from "node:http";
import process from "node:process";
import type { Mountable } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { aboveVersion } from "../src/options.ts";
import { mountedRoutes } from "./mount.ts";
import { NODE_SHAPES } from "./node-mount.ts";
import { type NodeHandlerOptions, toNodeHandler } from "./node.ts";

assertNodeVersion();

/** A middleware for `app.use`. */
export type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void;

/**
 * Returns the gateway as an Express middleware. Passes a route that the gateway does not own to the next handler with its body unread, and
 * errors of the mount itself to the error handlers.
 *
 * @example app.use("/ai", toExpressHandler(gateway, { context: (req: Request) => ({ user: req.user }) }));
 */
export const toExpressHandler = <Context = unknown, Req extends IncomingMessage = IncomingMessage>(
  gateway: Mountable<Context>,
  options: NodeHandlerOptions<Context, Req> = {},
): ExpressHandler => {
  // Names this function in the errors.
  mountedRoutes("toExpressHandler", gateway, options, NODE_SHAPES);
  const handler = toNodeHandler(gateway, options);
  const prefix = options.prefix?.replace(/\/+$/, "");
  const roots = gateway.endpoints.map(({ path }) => path.replace("**", ""));
  const isRoute = (url: string): boolean => roots.some((root) => url.startsWith(root));
  let isWarned = false;
  const warn = (text: string): void => {
    if (!isWarned) process.emitWarning(text, "PolygateWarning");
    isWarned = true;
  };
  return (req, res, next) =>
    handler(req, res, (error) => {
      if (!error && !isWarned) {
        const fault = prefix ? undefined : faultOfBaseUrl(req, isRoute);
        if (prefix && isPrefixTwice(req, prefix, isRoute))
          warn(
            `${req.method} ${prefix}… did not reach the gateway: Express removes "${prefix}" from the address itself, and the mount expects it again. Leave out the prefix: app.use("${prefix}", toExpressHandler(gateway)).`,
          );
        // Such a route may be the host's own.
        else if (fault)
          res.once("finish", () => {
            if (res.statusCode === 404) warn(`A request of a client missed the gateway and got 404: ${fault}.`);
          });
      }
      next(error);
    });
};

/**
 * Says what is wrong with the mount, or with the base URL of a client, where a request for a route of the gateway has a version too many or
 * too few.
 */
function faultOfBaseUrl(
  { url = "", baseUrl }: IncomingMessage & { readonly baseUrl?: unknown },
  isRoute: (url: string) => boolean,
): string | undefined {
  const withoutVersion = /^\/v1(?:beta)?(\/v1.*)$/s.exec(url)?.[1];
  if (withoutVersion !== undefined)
    return isRoute(withoutVersion) ? "the client's base URL has its version twice" : undefined;
  if (!isRoute(`/v1${url}`) && !isRoute(`/v1beta${url}`)) return undefined;
  // Express has removed the version of the client's address with the path of the mount.
  const above = typeof baseUrl === "string" ? aboveVersion(baseUrl) : undefined;
  return above === undefined
    ? "the client's base URL lacks its version, such as /v1"
    : `the path of the mount, "${baseUrl as string}", ends in a version, and the routes of the gateway begin with theirs. Write app.use("${above || "/"}", toExpressHandler(gateway))`;
}

/** True for a route of the gateway that it did not own, because Express has removed the mount's prefix from the address already. */
function isPrefixTwice(
  { url = "", baseUrl }: IncomingMessage & { readonly baseUrl?: unknown },
  prefix: string,
  isRoute: (url: string) => boolean,
): boolean {
  return typeof baseUrl === "string" && baseUrl.endsWith(prefix) && !url.startsWith(`${prefix}/`) && isRoute(url);
}
