/** The media that the format takes (spec 2.8), by their declared types and the aliases under which clients send them. */

export type MediaKind = "image" | "audio" | "video" | "document";

const SUPPORTED: Readonly<Record<MediaKind, readonly string[]>> = {
  image: ["image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"],
  audio: ["audio/wav", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"],
  video: [
    "video/mp4",
    "video/mpeg",
    "video/mov",
    "video/avi",
    "video/flv",
    "video/mpg",
    "video/webm",
    "video/wmv",
    "video/3gpp",
  ],
  document: ["application/pdf"],
};

const ALIASES: Readonly<Record<MediaKind, readonly string[]>> = {
  image: ["image/jpg"],
  audio: [
    "audio/x-wav",
    "audio/wave",
    "audio/vnd.wave",
    "audio/mpeg",
    "audio/mpeg3",
    "audio/x-mp3",
    "audio/x-aiff",
    "audio/aif",
    "audio/x-aac",
    "audio/aacp",
    "audio/vorbis",
    "audio/opus",
    "audio/x-flac",
  ],
  video: [
    "video/quicktime",
    "video/x-msvideo",
    "video/msvideo",
    "video/x-flv",
    "video/x-ms-wmv",
    "video/mpegps",
    "video/3gp",
    "video/3gpp2",
  ],
  document: ["application/x-pdf"],
};

const KIND_OF: ReadonlyMap<string, MediaKind> = new Map(
  [SUPPORTED, ALIASES].flatMap((table) =>
    Object.entries(table).flatMap(([kind, types]) => types.map((type) => [type, kind as MediaKind] as const)),
  ),
);

/** Taken as base64 alone, beyond the spec: what clients of the official service attach. */
const INLINE_IMAGES: readonly string[] = ["image/gif"];
const INLINE_TEXTS: readonly string[] = ["text/plain", "text/csv", "application/json"];

/** The most characters of a type, its parameters included. */
export const MAX_MIME_TYPE_CHARS = 255;

/** A type without its parameters: `audio/ogg; codecs=opus` is `audio/ogg`. */
const essence = (mimeType: string): string =>
  (mimeType.slice(0, MAX_MIME_TYPE_CHARS).split(";", 1)[0] ?? "").trim().toLowerCase();

/** What a type is, or undefined for one that the format does not take. */
export const mediaKind = (mimeType: string): MediaKind | undefined =>
  // Most are written as they are listed.
  KIND_OF.get(mimeType) ?? KIND_OF.get(essence(mimeType));

/** What a type is that comes as base64, or undefined for one that is not taken. */
export function inlineKind(mimeType: string): MediaKind | undefined {
  const known = KIND_OF.get(mimeType);
  if (known) return known;
  if (isPlainText(mimeType)) return "document";
  return INLINE_IMAGES.includes(essence(mimeType)) ? "image" : mediaKind(mimeType);
}

/** A document that is text, and is read as that. */
export const isPlainText = (mimeType: string): boolean => INLINE_TEXTS.includes(essence(mimeType));

/** One that is told as text, and not as what kind of text it is. */
export const isOtherText = (mimeType: string): boolean => isPlainText(mimeType) && essence(mimeType) !== "text/plain";

export const isSupportedMedia = (mimeType: string): boolean => mediaKind(mimeType) !== undefined;
export const isInlineMedia = (mimeType: string): boolean => inlineKind(mimeType) !== undefined;
export const isImageType = (mimeType: string): boolean => essence(mimeType).startsWith("image/");
/** Sound, film and documents, of whichever type. */
export const isInlineOnly = (mimeType: string): boolean =>
  /^(?:audio|video)\//.test(essence(mimeType)) || mediaKind(mimeType) === "document";

export const INLINE_MEDIA: readonly string[] = [...Object.values(SUPPORTED).flat(), ...INLINE_IMAGES, ...INLINE_TEXTS];
export const SUPPORTED_IMAGES: string = SUPPORTED.image.join(", ");

/** The type that the name of a file promises, for media that are only pointed at. */
export function promisedType(uri: string, kind: MediaKind): string {
  // By places, not by one pattern: that would look for the end of a hostile name again from each of its dots.
  const end = uri.search(/[?#]/);
  const name = end < 0 ? uri : uri.slice(0, end);
  const dot = name.lastIndexOf(".");
  const extension = dot < 0 ? "" : name.slice(dot + 1).toLowerCase();
  const family = kind === "document" ? "application" : kind;
  const promised = `${family}/${extension === "jpg" ? "jpeg" : extension}`;
  return mediaKind(promised) === kind ? promised : (SUPPORTED[kind][0] ?? promised);
}
