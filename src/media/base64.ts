/** Tells whether a text is base64 that decodes, without decoding it. */

const ALPHABET = /^[A-Za-z0-9+/]+={0,2}$/;

/** Whether a non-empty text is base64 of RFC 4648, section 4: whole groups of four, padded, no white space. */
export const isBase64 = (text: string): boolean => text.length % 4 === 0 && ALPHABET.test(text);
