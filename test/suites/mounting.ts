/** What is the gateway's and what stays its host's. */

import { expect, it } from "vitest";
import { ask, asking, type Driver, type Pieces } from "../drivers/driver.ts";
import { ownAnswer } from "../hosts/host.ts";
import { KEY, type Mount, openStage, sharedStage } from "../hosts/stage.ts";

const NOT_OWNED = ["/", "/v1", "/api/usage", "/api/usage/token/x"];

const echo: Pieces = async function* ({ prompt }) {
  yield `You said ${prompt}.`;
};

/** The body of `wrongAddress`. */
export const NOWHERE: unknown = expect.stringMatching(
  /"message":"(?:There is no route|This gateway does not offer) (?:GET|POST) /,
);

export function mountingSuite(mount: Mount, driver: Driver): void {
  const { host, prefix } = mount;
  const stage = sharedStage(mount);
  const { path: owned, init } = asking(driver, driver.forms[0]);

  it.each([...NOT_OWNED, ...driver.notOwned])("leaves %s to its host", async (path) => {
    const response = await stage().request(`${path}?key=${KEY}`, init);
    const own = ownAnswer(`${prefix}${path}?key=${KEY}`, init.body);
    expect([response.status, await response.text()]).toEqual(host.ownRoutes ? [200, own] : [404, NOWHERE]);
  });

  const beside = host.ownRoutes && prefix !== "" ? [owned, `${prefix}x${owned}`, `${prefix.slice(0, -1)}${owned}`] : [];

  it.each(beside)("leaves %s, beside its prefix, to its host", async (path) => {
    const response = await stage().host.request(path, init);
    expect(await response.text()).toBe(ownAnswer(path, init.body));
  });

  it("takes a slash at the end, and a query", async () => {
    const [path = "", query] = owned.split("?", 2);
    for (const address of [`${path}?x=1`, ...(query === undefined ? [`${path}/`] : [])]) {
      const response = await stage().request(address, init);
      await response.text();
      expect([address, response.status]).toEqual([address, 200]);
    }
  });

  it.each(driver.forms)("answers requests that come at once, each with its own: $name", async (form) => {
    await using own = await openStage(mount, driver.plays(echo));
    const prompts = Array.from({ length: 20 }, (_, index) => `prompt ${index}`);
    const responses = await Promise.all(prompts.map((prompt) => ask(own, driver, form, { prompt })));
    for (const [index, response] of responses.entries())
      expect(await form.textOf(response)).toBe(`You said ${prompts[index]}.`);
  });
}
