/** Keeps a mask as painting steps, so that the user can undo the last step. */

/** A point in pixels of the picture. */
export type Point = readonly [x: number, y: number];

export type MaskStep =
  | { readonly type: "stroke"; readonly isErasing: boolean; readonly width: number; readonly points: readonly Point[] }
  | {
      readonly type: "rectangle";
      readonly x: number;
      readonly y: number;
      readonly width: number;
      readonly height: number;
    };

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** A colour that stands out on screen. The mask file has no colour. */
const PAINT = "#ff2e79";

export function paintStep(context: Context, step: MaskStep): void {
  context.fillStyle = PAINT;
  if (step.type === "rectangle") return context.fillRect(step.x, step.y, step.width, step.height);
  context.save();
  if (step.isErasing) context.globalCompositeOperation = "destination-out";
  context.strokeStyle = PAINT;
  context.lineWidth = step.width;
  context.lineCap = "round";
  context.lineJoin = "round";
  const [[x, y] = [0, 0], ...others] = step.points;
  context.beginPath();
  context.moveTo(x, y);
  for (const point of others) context.lineTo(...point);
  context.stroke();
  // Paint a dot for a click: the canvas does not draw a line without length.
  context.beginPath();
  context.arc(x, y, step.width / 2, 0, 2 * Math.PI);
  context.fill();
  context.restore();
}

export function paintSteps(context: Context, steps: readonly MaskStep[]): void {
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  for (const step of steps) paintStep(context, step);
}

/** A mask that is ready to be sent. */
export interface PaintedMask {
  /** A PNG of the picture's size. Painted pixels are fully transparent (spec 2.2). */
  readonly file: File;
  /** The painted share of the picture, from 0 to 1. */
  readonly share: number;
}

/** Returns the mask of the steps; undefined if nothing is painted. */
export async function maskOf(
  steps: readonly MaskStep[],
  { width, height }: { readonly width: number; readonly height: number },
): Promise<PaintedMask | undefined> {
  const painted = new OffscreenCanvas(width, height);
  const context = painted.getContext("2d", { willReadFrequently: true });
  const mask = new OffscreenCanvas(width, height);
  const maskContext = mask.getContext("2d");
  if (!context || !maskContext) return undefined;
  paintSteps(context, steps);
  const share = paintedShare(context.getImageData(0, 0, width, height).data);
  if (share === 0) return undefined;
  maskContext.fillRect(0, 0, width, height);
  maskContext.globalCompositeOperation = "destination-out";
  maskContext.drawImage(painted, 0, 0);
  const blob = await mask.convertToBlob({ type: "image/png" });
  return { file: new File([blob], "mask.png", { type: "image/png" }), share };
}

/** Returns the share of fully painted pixels: only these become fully transparent. */
function paintedShare(pixels: Uint8ClampedArray): number {
  let count = 0;
  for (let alpha = 3; alpha < pixels.length; alpha += 4) if (pixels[alpha] === 255) count++;
  return (4 * count) / pixels.length;
}
