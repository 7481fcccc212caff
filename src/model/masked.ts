/**
 * Recognizes the secrets of keys, for everything that keeps or shows texts of people: the log of changes, errors, addresses, ids and names.
 *
 * - A secret has `sk-` before 43 characters, or a random word behind it. The log always masks such a secret, and no id may have it.
 * - A random word may be a secret without its prefix, or an id from a login. Errors mask such a word, and so does the log, except ids of
 *   things, the values of metadata and the names of users. No name may be such a word, except the id of its key.
 */

/** A secret that polygate makes, as a word of its own. */
const SECRET = /(?:\b|(?<=_))sk-[\w-]{43}(?![\w-])/g;

/** A word that is as long as a secret without its prefix. */
const LONG_WORD = /(?<![\w-])[\w-]{43,}/g;

const LENGTH = 43;
/** Of ten thousand secrets, two have fewer changes between small letters, capitals and digits. Ids that people write rarely have more. */
const LEAST_CHANGES = 12;

/** True for a word with a part as random as a secret. Of a thousand secrets, one is taken for a word of people. */
function isRandom(word: string): boolean {
  if (word.length < LENGTH || !/[a-z][A-Z]/.test(word) || !/\d/.test(word)) return false;
  let changes = 0;
  for (let at = 1; at < word.length; at++) {
    if (at >= LENGTH && isChange(word, at - LENGTH + 1)) changes--;
    if (isChange(word, at) && ++changes >= LEAST_CHANGES) return true;
  }
  return false;
}

function isChange(word: string, at: number): boolean {
  const [before, after] = [kindOf(word.charCodeAt(at - 1)), kindOf(word.charCodeAt(at))];
  return before !== after && before !== undefined && after !== undefined;
}

function kindOf(code: number): "digit" | "capital" | "small" | undefined {
  if (code >= 48 && code <= 57) return "digit";
  if (code >= 65 && code <= 90) return "capital";
  return code >= 97 && code <= 122 ? "small" : undefined;
}

const MASK = "sk-…";

const replaced = (text: string, isSecret: (word: string) => boolean): string =>
  text.replaceAll(SECRET, MASK).replaceAll(LONG_WORD, (word) => (isSecret(word) ? MASK : word));

/** Returns a text without secrets. Keeps random words without the prefix. */
export const withoutSecrets = (text: string): string =>
  replaced(text, (word) => {
    const at = word.search(/sk-/i);
    return at >= 0 && isRandom(word.slice(at + "sk-".length));
  });

/** Returns a text without secrets and random words. */
export const masked = (text: string): string => replaced(text, isRandom);

/** True for a text that has a secret: no id can be such a text. */
export const hasSecret = (text: string): boolean => withoutSecrets(text) !== text;

/** True for a text that has a secret or a random word: no name can be such a text. */
export const mayBeSecret = (text: string): boolean => masked(text) !== text;

/** The end of an error about an id or a name. */
export const LIKE_SECRET = "cannot look like the secret of a key";
