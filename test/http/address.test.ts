/** Addresses are read as they were written, also those that `URL` cannot read. */

import { describe, expect, it } from "vitest";
import { originOf, pathOf, queryOf } from "../../src/http/request.ts";

describe("an address", () => {
  it.each([
    ["http://host/v1/messages", "http://host", "/v1/messages"],
    ["http://host:80/v1/messages?a=b", "http://host:80", "/v1/messages"],
    ["http://host/v1/messages#top?", "http://host", "/v1/messages"],
    ["http://host", "http://host", "/"],
    ["http://host?a=/b", "http://host", "/"],
    ["http://host/a?b=http://other/c", "http://host", "/a"],
    ["http://host//v1/messages", "http://host", "//v1/messages"],
    ["http://host/../v1/%6Dessages", "http://host", "/../v1/%6Dessages"],
    ["http://[::1]:3000/v1", "http://[::1]:3000", "/v1"],
    ["http://[::1", "http://[::1", "/"],
    ["http://[::1/v1/messages", "http://[::1", "/v1/messages"],
    ["http://user@ho st/v1", "http://user@ho st", "/v1"],
    ["http:///v1", "http://", "/v1"],
    // What runtimes tell of a request without a usable host.
    ["/v1/messages?key=1", "", "/v1/messages"],
    ["//", "", "//"],
    ["//host/v1", "", "//host/v1"],
    ["/", "", "/"],
    ["/v1?to=http://other/c", "", "/v1"],
  ])("%s is %j and %j", (url, origin, path) => {
    expect([originOf(url), pathOf(url)]).toEqual([origin, path]);
  });

  it.each([
    ["http://host/a", ""],
    ["http://host/a?key=1&b=%20c", "key=1&b=+c"],
    ["http://host/a?key=1#?key=2", "key=1"],
    ["/a?key=%", "key=%25"],
  ])("of %s has the query %j", (url, query) => {
    expect(queryOf(url).toString()).toBe(query);
  });
});
