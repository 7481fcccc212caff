/**
 * Recognizes the secrets of keys, for everything that keeps or shows texts of people: the log of changes, errors, addresses, ids
 * and names.
 *
 * - A secret has `sk-` before 43 characters, or a random word behind it. The log always masks such a secret, and no id may have
 *   it.
 * - A random word may be a secret without its prefix, or an id from a login. Errors mask such a word, and so does the log,
 *   except ids of things, the values of metadata and the names of users. No name may be such a word, except the id of its key.
 */

import type { BudgetDirectory, KeyDirectory } from "../stores/durable.ts";

/** A secret that polygate makes, as a word of its own. */
const SECRET = /(?:\b|(?<=_))sk-[\w-]{43}(?![\w-])/g;

/** A word that is as long as a secret without its prefix. */
const LONG_WORD = /(?<![\w-])[\w-]{43,}/g;

const LENGTH = 43;
/**
 * Of ten thousand secrets, one has fewer changes between small letters, capitals and digits. Ids that people write rarely have
 * more.
 */
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

/** Matches a text in which a secret stands as it was made. */
const ASCII = /^\p{ASCII}*$/u;
const UNSEEN = /^\p{Default_Ignorable_Code_Point}$/u;
/** Dashes that documents and chats put in place of a hyphen. */
const HYPHEN = /^[\u2010-\u2013\u2212]$/u;
/** Stands for a character of a secret. */
const GONE = "\0";
// oxlint-disable-next-line no-control-regex -- these stand for secrets
const SECRETS = /\0+/g;

const gone = (word: string): string => GONE.repeat(word.length);

/**
 * Returns a text without unseen characters, and with the plain forms of others, such as those of full width: a secret that was copied from a
 * document or a chat may have such characters. With it, the place of each character in the text.
 */
function plainOf(text: string): readonly [plain: string, placeOf: (at: number) => number] {
  if (ASCII.test(text) && !text.includes(GONE)) return [text, (at) => at];
  const places: number[] = [];
  let plain = "";
  let place = 0;
  for (const char of text) {
    const form = UNSEEN.test(char) || char === GONE ? "" : HYPHEN.test(char) ? "-" : char.normalize("NFKC");
    plain += form;
    for (let part = 0; part < form.length; part++) places.push(place);
    place += char.length;
  }
  return [plain, (at) => places[at] ?? text.length];
}

function replaced(text: string, isSecret: (word: string) => boolean): string {
  let shown = "";
  let from = 0;
  // A secret as it was made may stand beside a character that its plain form would join to it.
  for (const { index, 0: secret } of text.matchAll(SECRET)) {
    shown += replacedIn(text.slice(from, index), isSecret) + MASK;
    from = index + secret.length;
  }
  return shown + replacedIn(text.slice(from), isSecret);
}

function replacedIn(text: string, isSecret: (word: string) => boolean): string {
  const [plain, placeOf] = plainOf(text);
  const left = plain.replaceAll(SECRET, gone).replaceAll(LONG_WORD, (word) => (isSecret(word) ? gone(word) : word));
  let shown = "";
  let from = 0;
  for (const { index, 0: secret } of left.matchAll(SECRETS)) {
    shown += text.slice(from, placeOf(index)) + MASK;
    from = placeOf(index + secret.length);
  }
  return shown + text.slice(from);
}

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

type Named = { readonly id?: string; readonly name?: string; readonly metadata?: Readonly<Record<string, unknown>> };

/**
 * Throws a RangeError for a new key or budget whose id or name looks like a secret. A name may be its id, which may come from a
 * login.
 */
export function assertNoSecret(owner: "key" | "budget", { id = "", name = id, metadata = {} }: Named): void {
  if (hasSecret(id)) throw new RangeError(`A ${owner}'s id ${LIKE_SECRET}.`);
  if (name !== id && mayBeSecret(name)) throw new RangeError(`A ${owner}'s name ${LIKE_SECRET}.`);
  if (Object.keys(metadata).some(mayBeSecret)) throw new RangeError(`The name of metadata ${LIKE_SECRET}.`);
}

/** Throws a RangeError for changes that give such a name. Names that are there stay: an earlier version took them. */
export function assertNoNewSecret(
  owner: "key" | "budget",
  { id, name: former, metadata: before = {} }: Named & { readonly id: string },
  { name = former, metadata = {} }: Named,
): void {
  const added = Object.entries(metadata).filter(([entry, value]) => value !== null && !Object.hasOwn(before, entry));
  assertNoSecret(owner, {
    metadata: Object.fromEntries(added),
    ...(name !== undefined && name !== former && name !== id && { name }),
  });
}

type Directory = KeyDirectory & Partial<BudgetDirectory>;
type Verb = (...args: never[]) => unknown;

/**
 * Returns a store that makes no id and no name that looks like a secret. The store may be of a class with private fields, or
 * frozen.
 */
export function withoutSecretNames<Store extends Directory>(store: Store): Store {
  const changed = async (owner: "key" | "budget", id: string, changes: Named): Promise<void> => {
    // The store refuses changes of a wrong type.
    const { name, metadata }: { readonly name?: unknown; readonly metadata?: unknown } = Object(changes);
    const isSuspect =
      (typeof name === "string" && mayBeSecret(name)) || Object.keys(Object(metadata)).some(mayBeSecret);
    const before = isSuspect && (await (owner === "key" ? store.report(id) : store.budgetReport?.(id)));
    if (before) assertNoNewSecret(owner, before, changes);
  };
  const checks: { readonly [Name in keyof Directory]?: (...args: never[]) => void | Promise<void> } = {
    add: (key: Named = {}) => assertNoSecret("key", key),
    update: (id: string, changes: Named) => changed("key", id, changes),
    addBudget: (budget: Named) => assertNoSecret("budget", budget),
    updateBudget: (id: string, changes: Named) => changed("budget", id, changes),
  };
  // The cast is safe: the proxy has the methods of its store.
  return new Proxy(Object.create(store) as Store, {
    get(_object, name) {
      const verb: unknown = Reflect.get(store, name);
      if (typeof verb !== "function") return verb;
      const check = Object.hasOwn(checks, name) ? (Reflect.get(checks, name) as Verb) : undefined;
      if (!check) return (...args: unknown[]): unknown => Reflect.apply(verb, store, args);
      return async (...args: unknown[]): Promise<unknown> => {
        await Reflect.apply(check, undefined, args);
        return Reflect.apply(verb, store, args);
      };
    },
  });
}
