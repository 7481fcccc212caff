/** How large an image is. */

/** In pixels, as stored: a camera's note to turn the picture is not followed. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}
