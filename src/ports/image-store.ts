/** The port behind which finished images live until their URLs expire. */

/**
 * Where the images of an answer are kept while their URLs live (60 minutes, spec 8).
 *
 * Promises, which `polygate/testing` checks:
 * - What was put is what is got, byte by byte, until it expires; whether by this process or, where the store is shared, by another.
 * - From `expiresAt` on, to the millisecond by the store's clock, an image is never handed out again. It is `"gone"` for at
 *   least TOMBSTONE_MS, and then unknown. The gateway answers 410 for the one and 404 for the other, and compares
 *   `expiresAt` with its own clock as well, so that a store whose clock lags does not prolong a URL.
 * - An image that was put stays until `expiresAt`, however many come after it. A store that is full refuses the new one.
 * - What was booked is free for the images that it was booked for, whatever others book and put meanwhile.
 * - One key alone cannot book the whole of a store whose room is limited.
 * - An id that was never put, or that is no id at all (`isImageId`), is unknown; it is never used as a path.
 */
export interface ImageStore {
  /**
   * Sets room aside for the images of one call, before anything is paid for them. Rejects with a GatewayError `busy`, which
   * carries `retryAfterMs`, where there is too little, in all or for this key. A store whose room has no limit may leave it out.
   */
  book?(room: WantedRoom): Promise<ImageBooking>;
  /**
   * Keeps an image, in booked room as far as that goes. Its bytes belong to the store from then on and must not be changed.
   * Rejects with a RangeError for an id that is none, or an image that the store can never hold; with a GatewayError `busy`
   * where neither the booking nor anything else has room for it.
   */
  put(image: StoredImage, booking?: ImageBooking): Promise<void>;
  /** The image with this id; `"gone"` when there was one; undefined when none is known. */
  get(id: string): Promise<StoredImage | "gone" | undefined>;
}

/** The room that a call may need. */
export interface WantedRoom {
  /** Whose images they are (`ApiKey.id`). */
  readonly keyId: string;
  /** The most that they take together, in bytes: an integer from 0 up. */
  readonly bytes: number;
}

/** Room that is set aside. */
export interface ImageBooking {
  /** Gives back what no image has taken. Returns at once and never throws; a second time changes nothing. */
  release(): void;
}

/** A finished picture, as it is kept. */
export interface StoredImage {
  /** From `newImageId`. Whoever has it may see the image. */
  readonly id: string;
  readonly bytes: Uint8Array;
  /** Such as `image/png`. */
  readonly mediaType: string;
  /** The first moment at which it is gone, in milliseconds since the Unix epoch. */
  readonly expiresAt: number;
}

/** How long an image that has expired is remembered as gone, in milliseconds, at least. */
export const TOMBSTONE_MS = 3_600_000;

/** So many that no guess hits, even where a file system takes upper and lower case for the same. */
const ID_BYTES = 24;

/** A new id that cannot be guessed: 192 random bits as 32 characters that are safe in a URL and a file name. */
export function newImageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
}

/** Whether a text can be an id: 1 to 128 letters, digits, `-` and `_`, so that it can never name anything else. */
export const isImageId = (text: string): boolean => /^[A-Za-z0-9_-]{1,128}$/.test(text);

/** Throws a RangeError for a text that is no id. */
export function assertImageId(text: string): void {
  if (!isImageId(text))
    throw new RangeError(`An image's id must be 1 to 128 letters, digits, "-" and "_", not ${JSON.stringify(text)}`);
}
