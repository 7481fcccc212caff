/** Hashes a text to 32 bits (FNV-1a). Equal texts have equal hashes in every process. */
export function fnv(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
