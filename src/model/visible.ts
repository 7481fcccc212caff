/** Shows texts of strangers so that people see each of their characters. */

/** Matches invisible characters. Joiners behind letters stay, because Persian and Indian words have them. */
const UNSEEN =
  /(?! )(?![\u200c\u200d](?<=(?!\p{Script=Latin})\p{L}\p{M}*.))[\p{C}\p{Z}\u2800\p{Default_Ignorable_Code_Point}]/gu;

const WORD = /[\p{L}\p{M}]+/gu;
const LATIN = /\p{Script=Latin}/u;
/** Matches letters of the scripts that have letters like Latin ones. */
const ALIKE =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/gu;
/** Matches letters of these scripts that all look like Latin ones. */
const ALL_ALIKE = /^(?:[аеорсухѕіјһԁԛԝӏѵАВЕКМНОРСТУХЅІЈοανρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]+)$/u;
/** Letters and digits with another form that is usual, such as those of full width. */
const FORMS = /[^\p{ASCII}\P{L}]|[^\p{ASCII}\P{Nd}]|\p{Nl}/gu;

const escaped = (char: string): string =>
  Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/**
 * Escapes invisible characters, and letters that look like Latin ones.
 *
 * @param escape Returns the escape of a character. Default: that of JSON.
 */
export function withEscapes(text: string, escape: (char: string) => string = escaped): string {
  const isAlike = ALL_ALIKE.test((text.match(ALIKE) ?? []).join(""));
  return text
    .replaceAll(WORD, (word) => (isAlike || LATIN.test(word) ? word.replaceAll(ALIKE, escape) : word))
    .replaceAll(FORMS, (char) => (/^[\da-z]+$/i.test(char.normalize("NFKC")) ? escape(char) : char))
    .replaceAll(UNSEEN, escape);
}

/** Returns a text as it is, or as JSON if it has characters to escape, or some that could be taken for an escape. */
export const visible = (text: string): string =>
  /["\\]/.test(text) || withEscapes(text) !== text ? withEscapes(JSON.stringify(text)) : text;
