/** Paints a mask on a picture, with a mouse, a pen, a finger, or by the numbers of a rectangle. */

import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { type MaskStep, paintStep, paintSteps, type Point } from "../pictures/mask.ts";
import { mask, type Picture } from "../state/pictures.ts";
import { Field } from "./controls.ts";
import { html, type View } from "./html.ts";

interface Brush {
  readonly isErasing: boolean;
  /** The width of the brush, in percent of the picture's width. */
  readonly percent: number;
}

export function MaskEditor({ picture }: { readonly picture: Picture }): View {
  const { src, about, width, height, maskSteps } = picture;
  const brush = useSignal<Brush>({ isErasing: false, percent: 12 });
  const canvas = useRef<HTMLCanvasElement>(null);
  useSignalEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context) paintSteps(context, maskSteps.value);
  });
  return html`
    <div class="easel">
      <img src=${src} alt=${about} width=${width} height=${height} />
      <canvas
        ref=${canvas}
        width=${width}
        height=${height}
        role="img"
        aria-label="Mask. Paint on it with a mouse or a finger, or add a rectangle by numbers."
        onPointerDown=${(event: PointerEvent) => startStroke(event, picture, brush.value)}
      ></canvas>
    </div>
    <div class="mask-tools" role="group" aria-label="Mask tools">
      <div class="segments" role="group" aria-label="Tool">
        <button
          type="button"
          aria-pressed=${!brush.value.isErasing}
          onClick=${() => (brush.value = { ...brush.value, isErasing: false })}
        >
          Brush
        </button>
        <button
          type="button"
          aria-pressed=${brush.value.isErasing}
          onClick=${() => (brush.value = { ...brush.value, isErasing: true })}
        >
          Eraser
        </button>
      </div>
      <label class="brush-size">
        Size
        <input
          type="range"
          min="2"
          max="40"
          value=${brush.value.percent}
          onInput=${(event: Event) =>
            (brush.value = { ...brush.value, percent: Number((event.currentTarget as HTMLInputElement).value) })}
        />
      </label>
      <button
        type="button"
        disabled=${maskSteps.value.length === 0}
        onClick=${() => (maskSteps.value = maskSteps.value.slice(0, -1))}
      >
        Undo
      </button>
      <button type="button" disabled=${maskSteps.value.length === 0} onClick=${() => (maskSteps.value = [])}>
        Clear
      </button>
      <${SaveLinks} picture=${picture} />
    </div>
    <${RectangleFields} picture=${picture} />
  `;
}

/** Records a stroke as a single step, until the pointer is lifted. */
function startStroke(event: PointerEvent, { width, maskSteps }: Picture, { isErasing, percent }: Brush): void {
  const canvas = event.currentTarget as HTMLCanvasElement;
  const context = canvas.getContext("2d");
  if (!context || event.button !== 0) return;
  event.preventDefault();
  canvas.setPointerCapture(event.pointerId);
  const points: Point[] = [pointOf(event, canvas)];
  const step: MaskStep = { type: "stroke", isErasing, width: (width * percent) / 100, points };
  paintStep(context, step);
  const lifted = new AbortController();
  const move = (event: PointerEvent): void => {
    const before = points.at(-1) ?? [0, 0];
    const point = pointOf(event, canvas);
    points.push(point);
    paintStep(context, { ...step, points: [before, point] });
  };
  const end = (): void => {
    lifted.abort();
    maskSteps.value = [...maskSteps.peek(), step];
  };
  const { signal } = lifted;
  canvas.addEventListener("pointermove", move, { signal });
  canvas.addEventListener("pointerup", end, { signal });
  canvas.addEventListener("pointercancel", end, { signal });
}

function pointOf({ clientX, clientY }: PointerEvent, canvas: HTMLCanvasElement): Point {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  return [((clientX - left) * canvas.width) / width, ((clientY - top) * canvas.height) / height];
}

/** Offers the files that copied code reads. */
const SaveLinks = ({ picture }: { readonly picture: Picture }): View => html`
  <span class="save">
    <a href=${picture.src} download=${picture.file.name}>Save picture</a>
    ${mask.value && html`<button type="button" class="quiet" onClick=${saveMask}>Save mask</button>`}
  </span>
`;

function saveMask(): void {
  if (!mask.value) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(mask.value.file);
  link.download = mask.value.file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

/** Adds a rectangle by numbers, for users who cannot draw by hand. */
function RectangleFields({ picture: { width, height, maskSteps } }: { readonly picture: Picture }): View {
  const box = {
    x: useSignal(Math.round(width / 4)),
    y: useSignal(Math.round(height / 4)),
    width: useSignal(Math.round(width / 2)),
    height: useSignal(Math.round(height / 4)),
  };
  const add = (event: SubmitEvent): void => {
    event.preventDefault();
    const step = { x: box.x.value, y: box.y.value, width: box.width.value, height: box.height.value };
    maskSteps.value = [...maskSteps.peek(), { type: "rectangle", ...step }];
  };
  return html`
    <details class="rectangle">
      <summary>Add a rectangle by numbers</summary>
      <form aria-label="Rectangle" onSubmit=${add}>
        ${sideField("Left", box.x, width)} ${sideField("Top", box.y, height)} ${sideField("Width", box.width, width)}
        ${sideField("Height", box.height, height)}
        <button type="submit">Add</button>
      </form>
    </details>
  `;
}

const sideField = (label: string, side: Signal<number>, max: number): View => html`
  <${Field}
    label=${label}
    type="number"
    min="0"
    max=${max}
    value=${side.value}
    onInput=${(text: string) => (side.value = Number(text))}
  />
`;
