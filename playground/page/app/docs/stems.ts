/** Finds what words have in common: "refused" and "rejecting" are one word to a search. */

/** Words of questions that stand in every section. */
export const STOP_WORDS: ReadonlySet<string> = new Set(
  "a about an and are as at be behind by can do does for from happens had has have how i if in into is it its me my of on or our per should so support supported supports that the their them then there this to two was we were what when where which who why will with without you your".split(
    " ",
  ),
);

/** Words that say little in a question. Unlike stop words, they count in the text of an error. */
export const FILLERS: ReadonlySet<string> = new Set(
  "able about actually all am already also any been but did didn doesn don each even ever every everyone find found get getting give given go got happen happened isn just know let ll make makes more most much must need needs only other others out please re really s see seen some something still such t take than these they those through until us use used uses using ve want way well while won work working works would".split(
    " ",
  ),
);

/** Returns the words of a text. Names such as `maxJsonBytes`, `retry-after` and `count_tokens` stand whole, and their parts beside them. */
export const tokensOf = (text: string): string[] =>
  text.split(/[^\p{L}\p{N}_-]+/u).flatMap((word) => {
    const parts = word.split(/[-_]|(?<=[a-z])(?=[A-Z])/);
    return parts.length > 1 ? [word, ...parts] : word;
  });

/** Returns the stem of a word, the same for words that mean the same; nothing for a word that says little. */
export function stemOf(word: string): string | null {
  const term = word.toLowerCase();
  return term === "" || STOP_WORDS.has(term) || FILLERS.has(term) ? null : commonStemOf(term);
}

/** Returns the stem of a word in small letters, the same for words that mean the same. */
export function commonStemOf(word: string): string {
  const stem = endless(word);
  return ALIKE.get(stem) ?? stem;
}

/** Returns a word without its ending, so that "refuse", "refused" and "refusing" are one. */
function endless(term: string): string {
  // Shorter words, and names with signs or digits, have no endings. No English word is longer.
  if (!/^[a-z]{4,30}$/.test(term)) return term;
  return term
    .replace(/ies$/, "y")
    .replace(/(?<![su])s$/, "")
    .replace(/ations?$/, "ate")
    .replace(/(?<=[aeiouy].*[^aeiou])(?:ing|ed)$/, "")
    .replace(/([bdgmnprt])\1$/, "$1")
    .replace(/(?<=....)e$/, "");
}

/** Words that mean the same. The docs have the first of each line, or several. */
const SYNONYMS = `
  add prepend inject
  accounting accountant bookkeeping finance
  address url uri
  alert notify notification warn warning
  break cut interrupt interruption truncate
  call request
  charge bill cost fee pay price pricing
  convert conversion translate translation transform
  dashboard ui gui interface console
  day daily today yesterday
  deploy deployment rollout
  delete remove erase erasure forgotten purge
  down away outage died dead fail failure unavailable overloaded
  embedding vector
  monitor monitoring observability
  fallback failover
  expire expiry expiration end
  google gcp
  hang abort cancel disconnect
  health healthcheck alive
  image picture photo screenshot
  injection jailbreak
  keep kept save retain retention
  kill stop runaway terminate
  kubernetes k8s
  leak steal stole stolen expose publish compromise
  investigate debug diagnose troubleshoot
  license licence
  limit cap restrict throttle
  login auth oauth oidc saml sso
  mail email
  margin markup profit resell
  mask redact anonymize anonymise strip
  test mock simulate fake stub
  month monthly
  next another
  own custom
  pause suspend ban block freeze deactivate disable
  performance benchmark latency
  pdf document
  personal pii
  postgresql postgres
  process replica instance pod
  refuse reject deny decline
  restore recovery disaster
  share split
  think thinking reason reasoning
  several multiple
  set setup configure configuration config
  send sent
  shutdown restart
  sticky affinity
  tax vat
  tier plan
  twice double duplicate
  team department
  top-up raise increase
  update upgrade
  upstream provider vendor
  user customer employee colleague coworker
`;

/** The first word of each line of synonyms by the stems of the others. */
const ALIKE: ReadonlyMap<string, string> = new Map(
  SYNONYMS.trim()
    .split("\n")
    .flatMap((line) => {
      const [first = "", ...others] = line.trim().split(" ").map(endless);
      return others.map((word): [string, string] => [word, first]);
    }),
);
