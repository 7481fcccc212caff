/** Shows the state of a call: as a word beside its name, and as numbers below. */

import type { Answer } from "../formats/answer.ts";
import { type Exchange, isRunning, type Progress } from "../http/exchange.ts";
import { html, type View } from "./html.ts";

interface CallStateProps {
  readonly exchange: Exchange | undefined;
  /** True after an error in the middle of the stream. */
  readonly hasFailed?: boolean;
}

export function CallState({ exchange, hasFailed = false }: CallStateProps): View {
  if (!exchange) return null;
  const progress = exchange.progress.value;
  const { kind, word } = hasFailed ? { kind: "bad", word: "broke off" } : stateOf(progress);
  return html`
    <span class="state" data-kind=${kind}>${word}</span>
    ${isRunning(progress) && html`<button type="button" class="quiet" onClick=${exchange.stop}>Stop</button>`}
  `;
}

function stateOf({ phase, status = 0, uploaded }: Progress): { kind: string; word: string } {
  if (phase === "sending" && uploaded !== undefined && uploaded < 1) return { kind: "live", word: "uploading" };
  if (phase === "sending") return { kind: "live", word: "waiting" };
  if (phase === "receiving") return { kind: "live", word: "streaming" };
  if (phase === "done") return status < 400 ? { kind: "good", word: `${status}` } : { kind: "bad", word: `${status}` };
  return { kind: phase === "broken" ? "bad" : "still", word: phase };
}

interface CallFooterProps {
  readonly exchange: Exchange;
  readonly answer?: Pick<Answer, "usage" | "stopReason">;
}

/** Shows the tokens, the reason why the model stopped, and the times. */
export function CallFooter({ exchange, answer }: CallFooterProps): View {
  const { firstByteMs, totalMs, uploaded } = exchange.progress.value;
  const facts: [name: string, value: string][] = Object.entries(answer?.usage ?? {}).map(([name, tokens]) => [
    name,
    `${tokens.toLocaleString("en")} tokens`,
  ]);
  if (answer?.stopReason !== undefined) facts.push(["stopped by", answer.stopReason]);
  if (firstByteMs !== undefined) facts.push(["first byte", `${firstByteMs.toLocaleString("en")} ms`]);
  if (totalMs !== undefined) facts.push(["whole call", `${totalMs.toLocaleString("en")} ms`]);
  return html`
    <footer class="panel-foot">
      ${
        uploaded !== undefined &&
        uploaded < 1 &&
        html`<label class="upload"
          >Upload <progress value=${uploaded} max="1">${Math.round(100 * uploaded)}%</progress></label
        >`
      }
      <dl class="facts">
        ${facts.map(
          ([name, value]) =>
            html`<div>
              <dt>${name}</dt>
              <dd>${value}</dd>
            </div>`,
        )}
      </dl>
    </footer>
  `;
}
