/** Runs the suites on hosts, over the driver of every format, and holds that no host was spared a case that it is asked for. */

import { beforeEach, describe, expect, it } from "vitest";
import type { Driver } from "../drivers/driver.ts";
import { drivers } from "../drivers/index.ts";
import { messages } from "../drivers/messages.ts";
import type { TestHost } from "../hosts/host.ts";
import { hostsOnNode, runtimes } from "../hosts/index.ts";
import type { Mount } from "../hosts/stage.ts";
import { backPressureSuite } from "./back-pressure.ts";
import { closingSuite } from "./closing.ts";
import { corsSuite } from "./cors.ts";
import { credentialsSuite } from "./credentials.ts";
import { deadlinesSuite } from "./deadlines.ts";
import { failuresSuite } from "./failures.ts";
import { formsSuite } from "./forms.ts";
import { hangUpsSuite } from "./hang-ups.ts";
import { keyInUrlSuite } from "./key-in-url.ts";
import { modelAddressesSuite } from "./model-addresses.ts";
import { mountingSuite } from "./mounting.ts";
import { permissionSuite } from "./permission.ts";
import { pictureLinksSuite } from "./picture-links.ts";
import { quietSuite } from "./quiet.ts";
import { quotaSuite } from "./quota.ts";
import { socketsSuite } from "./sockets.ts";
import { streamsSuite } from "./streams.ts";
import { tokenUsageSuite } from "./token-usage.ts";
import { transportSuite } from "./transport.ts";
import { crowdOfUploadsSuite, uploadsSuite } from "./uploads.ts";

type Suite = (mount: Mount, driver: Driver) => void;

/** What is true of every format. */
const OF_EVERY_FORMAT: Readonly<Record<string, Suite>> = {
  mounting: mountingSuite,
  transport: transportSuite,
  credentials: credentialsSuite,
  permission: permissionSuite,
  quota: quotaSuite,
  streams: streamsSuite,
  failures: failuresSuite,
  "a quiet backend": quietSuite,
  deadlines: deadlinesSuite,
  "hang-ups": hangUpsSuite,
  closing: closingSuite,
  cors: corsSuite,
};

/** What is true of answers that go on without end. All formats write their streams by the same code. */
const OF_MESSAGES: Readonly<Record<string, Suite>> = { "back-pressure": backPressureSuite };

const suitesOf = (driver: Driver): [name: string, suite: Suite][] =>
  Object.entries({ ...OF_EVERY_FORMAT, ...(driver === messages && OF_MESSAGES) });

/**
 * The formats differ only in their addresses and their bytes, which no host looks into. So messages runs all suites on all hosts. The other
 * formats run them on Node's own server, and their streams, which may have another content type, on the runtimes too.
 */
const OTHER_FORMATS: ReadonlySet<string> = new Set(drivers.filter((one) => one !== messages).map(({ name }) => name));
/** The gateway's own fetch switches no protocols. */
const OF_SOCKETS = "responses over WebSockets";

/** What only one format has, and no host can change: the gateway answers it from the address and the headers, as any other request. */
const OF_ONE_HOST: ReadonlySet<string> = new Set(["picture links", "a key in the url", "token usage"]);

/**
 * What the gateway decides from the headers, the bytes of the body and its clock. In a framework these come and go as in the suites `transport`
 * and `uploads of images`, so these suites run on Node's own server and on the other runtimes.
 */
const OF_NO_FRAMEWORK: ReadonlySet<string> = new Set([
  "credentials",
  "permission",
  "quota",
  "a quiet backend",
  "deadlines",
  "forms of images",
  "a crowd of uploads",
]);
const isFramework = (host: TestHost): boolean => host.name !== "node" && hostsOnNode.includes(host);

/**
 * Frameworks that hand Node's own request and response to the same handler as Express 5, which runs all. They can spoil what comes before it:
 * addresses, methods, headers and bodies.
 */
const OF_SAME_HANDLER: ReadonlySet<string> = new Set(["express 4", "fastify"]);
const OF_REQUESTS: ReadonlySet<string> = new Set(["mounting", "transport", "streams", "cors", "model addresses"]);

const isRunOn = (host: TestHost, format: string, suite: string): boolean =>
  host.name === "node" ||
  (!(OF_SAME_HANDLER.has(host.name) && ![suite, format].some((name) => OF_REQUESTS.has(name))) &&
    !(format === OF_SOCKETS && host.name === "fetch") &&
    !(isFramework(host) && (OF_NO_FRAMEWORK.has(suite) || OF_NO_FRAMEWORK.has(format))) &&
    !OF_ONE_HOST.has(format) &&
    (!OTHER_FORMATS.has(format) || (suite === "streams" && runtimes.includes(host))));

/** What only one format has, and a host can spoil: its bytes, its addresses, or what it serves beside its answers. */
const OF_ONE_FORMAT: Readonly<Record<string, (mount: Mount) => void>> = {
  "uploads of images": uploadsSuite,
  "a crowd of uploads": crowdOfUploadsSuite,
  "forms of images": formsSuite,
  "picture links": pictureLinksSuite,
  "model addresses": modelAddressesSuite,
  "a key in the url": keyInUrlSuite,
  "token usage": tokenUsageSuite,
  [OF_SOCKETS]: socketsSuite,
};

/** What can be another at a root than under a prefix: where things are found. All else is the same line behind the mount. */
const OF_ADDRESSES: ReadonlySet<string> = new Set([
  "mounting",
  "cors",
  "picture links",
  "model addresses",
  "a key in the url",
  "token usage",
]);

/** Runs the suites on each of the hosts, and compares the names of the cases that ran on one with those on the others. */
export function runSuitesOn(hosts: readonly TestHost[]): void {
  /** The cases that ran, by host. */
  const ran = new Map(hosts.map(({ name }): [string, string[]] => [name, []]));

  describe.each(hosts)("on $name", (host) => {
    beforeEach(({ task }) => void ran.get(host.name)?.push(task.fullName.split(`on ${host.name} > `, 2)[1] ?? ""));
    runAllOn(host);
  });

  it("every case has run on every host", () => {
    const most = Array.from(ran.values(), underPrefix).reduce((one, other) =>
      other.length > one.length ? other : one,
    );
    const present = hosts.filter(({ available }) => available);
    expect(present.map(({ name }) => [name, underPrefix(ran.get(name))])).toEqual(
      present.map((host) => [host.name, asked(most, host)]),
    );
  });
}

function runAllOn(host: TestHost): void {
  for (const prefix of host.mounts)
    describe.skipIf(!host.available)(`at ${prefix || "the root"}`, () => {
      const mount = { host, prefix };
      const isAsked = ([name]: readonly [name: string, ...unknown[]]): boolean =>
        prefix !== "" || OF_ADDRESSES.has(name);
      const suitesHere = (driver: Driver): [name: string, suite: Suite][] =>
        suitesOf(driver).filter((each) => isAsked(each) && isRunOn(host, driver.name, each[0]));
      describe.each(drivers.filter((driver) => suitesHere(driver).length > 0))("$name", (driver) => {
        describe.each(suitesHere(driver))("%s", (_name, suite) => {
          suite(mount, driver);
        });
      });
      const ofOneFormat = Object.entries(OF_ONE_FORMAT).filter((each) => isAsked(each) && isRunOn(host, each[0], ""));
      describe.each(ofOneFormat)("%s", (_name, suite) => {
        suite(mount);
      });
    });
}

// Some hosts are tried at their root as well; what stands beside a mount is a question only to a host that has routes of its own.
const asked = (cases: readonly string[], host: TestHost): string[] =>
  cases.filter((name) => {
    const [, format = "", suite = ""] = name.split(" > ");
    return (host.ownRoutes || !name.includes(", beside its prefix,")) && isRunOn(host, format, suite);
  });

const underPrefix = (cases: readonly string[] = []): string[] =>
  cases.filter((name) => name.startsWith("at /ai > ")).toSorted();
