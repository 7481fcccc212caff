/** Entries of a key's metadata as people write them: the check that the command line and the page share. */

/** Several equals signs before the first comma belong to a text, such as an LDAP name. */
const SEVERAL = /^[^=,]*(?:,\s*[a-z\d][\w.:-]*=[^,]*)+$/i;

/** True for a text that goes on as another entry, such as `slow,group=ops` of `tier=slow,group=ops`: it would be stored as a single text. */
export const hasFurtherEntries = (text: string): boolean => SEVERAL.test(text);
