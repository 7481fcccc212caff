/** A mask as the steps that painted it, so that the last one can be taken back. */

/** A point in the picture's own pixels. */
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

/** Any colour that stands out: the mask itself has none. */
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
  // A line of no length is not drawn, and a click is to paint a dot.
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
  /** A PNG of the picture's size, fully transparent where it was painted (spec 2.2). */
  readonly file: File;
  /** How much of the picture is painted, from 0 to 1. */
  readonly share: number;
}

/** The mask that some steps come to; undefined where they leave nothing painted. */
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

/** Only what is painted in full is transparent in full, and edited. */
function paintedShare(pixels: Uint8ClampedArray): number {
  let count = 0;
  for (let alpha = 3; alpha < pixels.length; alpha += 4) if (pixels[alpha] === 255) count++;
  return (4 * count) / pixels.length;
}
