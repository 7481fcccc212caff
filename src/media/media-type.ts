/** The media types of files that callers send: their usual names, and the types that are plain text. */

/** The usual names of types that some clients call by another name. */
const USUAL: ReadonlyMap<string, string> = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
  ["application/x-pdf", "application/pdf"],
  ["audio/vnd.wave", "audio/wav"],
  ["audio/wave", "audio/wav"],
  ["audio/x-wav", "audio/wav"],
  ["audio/mpeg3", "audio/mpeg"],
  ["audio/x-mp3", "audio/mpeg"],
]);

/** Matches types of raw samples, whose parameters tell the rate. */
const RAW = /^audio\/(?:pcm|l16)$/;

/** Returns the usual name of a media type, in lower case and without parameters: upstreams refuse `image/jpg`. Raw sound keeps its rate. */
export function usualType(mediaType: string): string {
  const [name = ""] = mediaType.split(";", 1);
  const type = name.trim().toLowerCase();
  return RAW.test(type) ? type + mediaType.slice(name.length) : (USUAL.get(type) ?? type);
}

/** Tells whether a file of a type is plain text. */
export const isTextType = (mediaType: string): boolean => /^(?:text\/|application\/json\b)/i.test(mediaType);
