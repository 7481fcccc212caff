/** How long texts are in bytes. */

const { Buffer } = globalThis as { Buffer?: { byteLength(text: string): number } };

/** How many bytes a text has in UTF-8. Counted natively where the runtime can. */
export const utf8Length = (text: string): number => (Buffer ? Buffer.byteLength(text) : countUtf8(text));

// Counted, not encoded: a prompt may be megabytes long, and its bytes are not needed.
function countUtf8(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) continue;
    // A surrogate is half of a four-byte character: two bytes for each half.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}
