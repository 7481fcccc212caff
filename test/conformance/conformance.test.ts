/** Runs the conformance suites on every host, and holds that none of them was spared a case. */

import { beforeEach, describe, expect, it } from "vitest";
import { hosts } from "../hosts.ts";
import { imagesSuite } from "./images.ts";
import { closingSuite } from "./closing.ts";
import { corsSuite } from "./cors.ts";
import { hangUpsSuite } from "./hang-ups.ts";
import { generateContentSuite } from "./generate-content.ts";
import { messagesSuite } from "./messages.ts";
import { mountingSuite } from "./mounting.ts";
import { tokenUsageSuite } from "./token-usage.ts";

/** The cases that ran, by host. */
const ran = new Map(hosts.map(({ name }): [string, string[]] => [name, []]));

for (const host of hosts)
  describe.skipIf(!host.available)(`on ${host.name}`, () => {
    beforeEach(({ task }) => void ran.get(host.name)?.push(task.fullName.split(`on ${host.name} > `, 2)[1] ?? ""));
    mountingSuite(host);
    messagesSuite(host);
    generateContentSuite(host);
    tokenUsageSuite(host);
    imagesSuite(host);
    hangUpsSuite(host);
    closingSuite(host);
    corsSuite(host);
  });

// Some hosts are tried at their root as well; what stands beside a mount is a question only to a host that has routes of its own.
const asked = (cases: readonly string[], ownRoutes: boolean): string[] =>
  underPrefix(cases).filter((name) => ownRoutes || !name.includes(", beside its prefix,"));

const underPrefix = (cases: readonly string[] = []): string[] =>
  cases.filter((name) => /^\S+(?: \S+)? at \/ai /.test(name)).toSorted();

it("every case has run on every host", () => {
  const most = Array.from(ran.values()).reduce((one, other) => (other.length > one.length ? other : one));
  console.table(Object.fromEntries(Array.from(ran, ([name, cases]) => [name, { cases: cases.length }])));
  const present = hosts.filter(({ available }) => available);
  expect(present.map(({ name }) => [name, underPrefix(ran.get(name))])).toEqual(
    present.map(({ name, ownRoutes }) => [name, asked(most, ownRoutes)]),
  );
});
