/** Secrets are recognized in texts, and long ids of people are not. */

import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { hasSecret, masked, mayBeSecret, withoutSecrets } from "../../src/admin/masked.ts";

const BARE = "Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX";

it.each([
  `sk-${"a".repeat(43)}`,
  `sk-${BARE}`,
  `team_sk-${"a".repeat(43)}`,
  `xsk-${BARE}`,
  `SK-${BARE}`,
  `sk-${BARE}-old`,
  `sk-${BARE}sk-${BARE}`,
])("%s is a secret", (text) => {
  for (const of of [text, `of "${text}", and so on`]) {
    expect([hasSecret(of), mayBeSecret(of)]).toEqual([true, true]);
    expect(withoutSecrets(of)).not.toContain(text.slice(-20));
  }
});

it.each([
  ["unseen characters", `s\u200bk-${BARE.slice(0, 20)}\u00ad${BARE.slice(20)}`],
  ["another hyphen", `sk\u2011${BARE}`],
  ["characters of full width", `sk-${BARE.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))}`],
  ["a character in two halves before it", `\u{1f511}sk-${BARE}`],
])("a secret with %s is a secret", (_what, text) => {
  const known = `\u{1f511} ä of "${text}", ﬁn`;
  expect([hasSecret(text), mayBeSecret(known)]).toEqual([true, true]);
  for (const mask of [masked, withoutSecrets]) {
    expect(mask(known)).toMatch(/^\u{1f511} ä of "(?:\u{1f511})?sk-…", ﬁn$/u);
    expect(mask("\u{1f511} ä\u200b ﬁn \0")).toBe("\u{1f511} ä\u200b ﬁn \0");
  }
});

it.each(["–paused", "\u2212 1", "²", "①", "\u200bold"])("a secret of few kinds before %j is a secret", (behind) => {
  const text = `sk-${"a".repeat(43)}${behind}`;
  expect(hasSecret(text)).toBe(true);
  expect(masked(text)).toBe(`sk-…${behind}`);
});

it.each([BARE, `${BARE}_`, `sk%2D${BARE}`, `${"a".repeat(200)}-${BARE}`])("%s may be a secret", (text) => {
  expect([hasSecret(text), mayBeSecret(text), withoutSecrets(text)]).toEqual([false, true, text]);
  expect(masked(`(${text}).`)).toMatch(/^\((?:sk%)?sk-…\)\.$/);
});

it.each([
  "sk-…",
  "sk-team-a",
  `sk-${"a".repeat(42)}`,
  "risk-production-eu-central-1-customer-service-gateway-2026",
  "production-eu-west-1-ServiceAccount-TeamBlue-2024",
  "customerSuccessPlatformEngineeringEMEA2026Budget",
  "arn-aws-iam-123456789012-role-MyServiceRole-ABCDEF",
  "0f3a9c0d1e2b4f5a6978877665544332210ffeeddccbbaa9988776655443322",
  "550E8400-e29b-41d4-a716-446655440000-550e8400-e29b",
  BARE.slice(1),
])("%s is none", (text) => {
  expect([hasSecret(text), mayBeSecret(text), masked(text)]).toEqual([false, false, text]);
});

it("knows nearly all secrets without their prefix", () => {
  const secrets = Array.from({ length: 5_000 }, (_, at) => createHash("sha256").update(`${at}`).digest("base64url"));
  const missed = secrets.filter((text) => !mayBeSecret(text));
  expect(missed.length).toBeLessThan(10);
});
