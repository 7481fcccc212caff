/** The media types of files that callers send: their registered names, and the types that are plain text. */

/** The registered names of types that some clients call by another name. */
const REGISTERED: ReadonlyMap<string, string> = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
  ["application/x-pdf", "application/pdf"],
]);

/**
 * Returns the registered name of a media type, in lower case: upstreams refuse `image/jpg`. Only a sound keeps its parameters, because some
 * tell its rate.
 */
export function registeredType(mediaType: string): string {
  const [name = ""] = mediaType.split(";", 1);
  const type = name.trim().toLowerCase();
  return (REGISTERED.get(type) ?? type) + (type.startsWith("audio/") ? mediaType.slice(name.length) : "");
}

/** Tells whether a file of a type is plain text. */
export const isTextType = (mediaType: string): boolean => /^(?:text\/|application\/json\b)/i.test(mediaType);
