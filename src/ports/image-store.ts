/** The port for stores of finished images. An image lives until its URL expires. */

/**
 * Stores the images of answers while their URLs live (60 minutes, spec 8).
 *
 * Promises, which `polygate/testing` checks:
 * - An image is returned with the same bytes until it expires, also by other processes that share the store.
 * - From `expiresAt` on, exact to the millisecond by the store's clock, an image is never returned again. It is `"gone"` for at least
 *   TOMBSTONE_MS, and then unknown. The gateway answers 410 for a gone image, and 404 for an unknown one. It also compares `expiresAt` with
 *   its own clock, so that a slow clock of the store does not prolong a URL.
 * - An image stays until `expiresAt`, no matter how many images follow. A full store refuses the new image.
 * - Booked room stays free for the images of its call, no matter how much other calls book and put.
 * - One key alone cannot book all room of a store with limited room.
 * - An id that was never put is unknown, and so is an invalid id (`isImageId`). An invalid id is never used as a path.
 */
export interface ImageStore {
  /**
   * Books room for the images of one call, before the call costs anything. Rejects with a GatewayError `busy`, which has `retryAfterMs`,
   * when the store has too little room, or too little for this key. Optional: a store with unlimited room needs no bookings.
   */
  book?(room: WantedRoom): Promise<ImageBooking>;
  /**
   * Stores an image, first in the booked room. The bytes then belong to the store: the caller must not change them. Rejects with a
   * RangeError for an invalid id, and for an image that is larger than the whole store. Rejects with a GatewayError `busy` when neither the
   * booking nor the rest of the store has room.
   */
  put(image: StoredImage, booking?: ImageBooking): Promise<void>;
  /** Returns an image by its id; `"gone"` for an expired image, and undefined for an unknown id. */
  get(id: string): Promise<StoredImage | "gone" | undefined>;
}

/** A request for room. */
export interface WantedRoom {
  /** The key of the call (`ApiKey.id`). */
  readonly keyId: string;
  /** The largest size of all images together, in bytes: an integer from 0 up. */
  readonly bytes: number;
}

/** Booked room. */
export interface ImageBooking {
  /** Frees the room that no image has taken. Returns at once, and never throws. A second call changes nothing. */
  release(): void;
}

/** A finished image in the store. */
export interface StoredImage {
  /** The id, from `newImageId`. Everybody who knows the id can see the image. */
  readonly id: string;
  /** The whole file. */
  readonly bytes: Uint8Array;
  /** The media type, such as `image/png`. */
  readonly mediaType: string;
  /** The first moment at which the image is gone, in milliseconds since the Unix epoch. */
  readonly expiresAt: number;
}

/** A store remembers an expired image as gone for at least this time, in milliseconds. */
export const TOMBSTONE_MS = 3_600_000;

/** The random bytes of an id: enough to prevent guessing, even if a file system ignores upper and lower case. */
const ID_BYTES = 24;

/** Returns a new id that cannot be guessed: 192 random bits, as 32 characters that are safe in URLs and file names. */
export function newImageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
}

/** Tells whether a text is a valid id: 1 to 128 letters, digits, `-` and `_`. Such a text cannot name any other file. */
export const isImageId = (text: string): boolean => /^[A-Za-z0-9_-]{1,128}$/.test(text);

/** Throws a RangeError for an invalid id. */
export function assertImageId(text: string): void {
  if (!isImageId(text))
    throw new RangeError(`An image's id must be 1 to 128 letters, digits, "-" and "_", not ${JSON.stringify(text)}`);
}
