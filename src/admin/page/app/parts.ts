/** The common parts of the views: tables, dialogs with a form, and bars. */

import { type Signal, signal } from "@preact/signals";
import { html as htm } from "htm/preact";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { withEscapes } from "../../../model/visible.ts";
import type { Spreadsheet } from "../../columns.ts";
import { type AmountChange, CONFIRM_BY_HEADER, doubtInWords, isLittle } from "../../much.ts";
import { addressOf, type Choices, follow, here, isDay, loginAddress, type Scope, wordsOf } from "./address.ts";
import {
  amountBelow,
  amountInWords,
  amountOf,
  dayIn,
  decimalsOf,
  pageCurrency,
  plain,
  type Rounding,
  shareOf,
  shownSecond,
  shownTime,
  shownTimeIn,
} from "./amounts.ts";
import {
  type Answered,
  type Apart,
  attempt,
  hasFailed,
  isLoggedIn,
  isWrongChoice,
  mayChange,
  Refusal,
  saveCsv,
  saveFile,
  tellFailure,
  type Write,
  writer,
} from "./api.ts";

export type View = VNode | VNode[] | null;
type Children = ComponentChildren;

export const html = htm as (strings: TemplateStringsArray, ...values: readonly unknown[]) => VNode;

/** A column of a table. */
export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => Children;
  /** Shows the column in a row of sums. Default: nothing, or `cell` for numbers. */
  readonly sum?: (sums: Row) => Children;
  /** True for numbers, which are aligned at their ends. */
  readonly isNumber?: boolean;
  /** True for the buttons of a row, which a user who may only look does not get. */
  readonly isChange?: boolean;
  /** True for cells that take the whole width of a narrow screen. */
  readonly isWide?: boolean;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[] | undefined;
  readonly keyOf: (row: Row) => string;
  readonly empty: Children;
  /** True for rows that are read beside each other: on a narrow screen, their cards have fewer lines. */
  readonly isDense?: boolean;
  /** Rows of sums below the others, with their names. */
  readonly sums?: readonly (readonly [name: string, sums: Row])[];
}

const classOf = ({ isNumber, isWide, isChange }: Column<never>): string =>
  `${isNumber ? "number" : ""} ${isWide || isChange ? "wide" : ""}`;

/** Stands in for a list until the list is loaded, and after a failure. */
export const Waiting = (): View =>
  hasFailed.value && isWrongChoice.value
    ? html`<p class="quiet blank">Nothing is shown for this choice: the line at the top says what is wrong.</p>`
    : hasFailed.value
      ? html`<p class="quiet blank">
          This could not be loaded. <button type="button" onClick=${() => location.reload()}>Try again</button>
        </p>`
      : html`<p class="quiet blank">Loading…</p>`;

/** Shows a part of a view below its heading, or why it could not be loaded. The other parts stay. */
export function Part<Body>({
  name,
  part,
  view,
}: {
  name: string;
  part: Apart<Body>;
  view: (body: Body) => Children;
}): View {
  const { body, error } = part.of.value ?? {};
  return html`<h3>${name}</h3>
    ${body === undefined ? html`<p class=${`blank ${error === undefined ? "quiet" : "bad"}`}>${error ?? "Loading…"}</p>` : view(body)}`;
}

/**
 * Shows a time by the clocks of the browser, or of a zone. Its title is the time in UTC.
 *
 * @param isRecord True for the time of a record, which has its second, too.
 * @param dayOf Another time, whose day is left out.
 */
export function Time({
  at,
  zone,
  isRecord = false,
  dayOf,
}: {
  at: number;
  zone?: string;
  isRecord?: boolean;
  dayOf?: number;
}): View {
  const time = new Date(at);
  // A key may end later than any calendar.
  if (Number.isNaN(time.getTime())) return html`<span>${at}</span>`;
  const utc = time.toISOString();
  const words = isRecord ? shownSecond(at, dayOf) : zone === undefined ? shownTime(at) : shownTimeIn(zone, at);
  return html`<time datetime=${utc} title=${utc}>${words}</time>`;
}

/** Shows an amount of a list, rounded. Its title has all digits. */
export function Amount({
  of: units,
  currency = pageCurrency.value,
  rest = "",
  rounding,
}: {
  of: number;
  currency?: string;
  /** Unseen digits at the end. */
  rest?: string;
  rounding?: Rounding | undefined;
}): View {
  const [shown, exact] = [amountBelow(units, currency, rounding), amountInWords(units, currency)];
  return html`<span class="amount" data-rest=${rest} title=${exact}>${shown}</span>`;
}

/**
 * Returns a function that shows the amounts of a column with their points below each other. Unseen digits fill the ends of the shorter ones.
 */
export function amountsIn(
  all: readonly number[],
  rounding?: Rounding,
  currency: string = pageCurrency.value,
): (units: number) => View {
  const most = all.reduce((decimals, units) => Math.max(decimals, decimalsOf(units, currency, rounding)), 0);
  return (units) => {
    const decimals = decimalsOf(units, currency, rounding);
    const rest = most > decimals ? `.${"0".repeat(most)}`.slice(decimals && decimals + 1) : "";
    return html`<${Amount} of=${units} currency=${currency} rest=${rest} rounding=${rounding} />`;
  };
}

/** The heading of a column of amounts. */
export const amountsNamed = (name: string, currency: string = pageCurrency.value): string =>
  `${name} (${currency || "units"})`;

/** Returns the column of what recorded calls have cost. Calls may be recorded in several currencies. */
export function spentBy<Row>(
  rows: readonly Row[],
  unitsOf: (row: Row) => number,
  currencyOf: (row: Row) => string | undefined,
): Column<Row> {
  const inCurrency = Map.groupBy(rows, (row) => currencyOf(row) ?? pageCurrency.value);
  const amounts = new Map([...inCurrency].map(([one, same]) => [one, amountsIn(same.map(unitsOf), "up", one)]));
  const isOne = amounts.size < 2;
  const [currency] = amounts.keys();
  return {
    name: isOne ? amountsNamed("Spent", currency) : "Spent",
    isNumber: true,
    cell: (row) => {
      const one = currencyOf(row) ?? pageCurrency.value;
      const amount = amounts.get(one)?.(unitsOf(row));
      return isOne ? amount : html`${amount} ${one || "units"}`;
    },
  };
}

/** Shows a name, unless the id beside it says the same. A long name is cut after a few lines, and its title has all of it. */
export const Name = ({ of: name, id }: { of?: string | undefined; id: string | undefined }): View =>
  name && name !== id ? html`<span class="quiet name" title=${name}>${withEscapes(name)}</span>` : null;

/** A table. On a narrow screen, each row is a card: its roles are written out, because browsers drop them with the layout of tables. */
export function Table<Row>({ caption, columns, rows, keyOf, empty, isDense, sums = [] }: TableProps<Row>): View {
  if (!rows) return html`<${Waiting} />`;
  if (rows.length === 0) return html`<p class="quiet blank">${empty}</p>`;
  const shown = columns.filter(({ isChange }) => !isChange || mayChange.value);
  const [first, ...others] = shown;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table role="table" class=${isDense ? "dense" : ""}>
      <caption class="unseen">
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${shown.map(({ name, isNumber }) => html`<th scope="col" role="columnheader" class=${isNumber ? "number" : ""}>${name}</th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (row) =>
            html`<tr role="row" key=${keyOf(row)}>
              <th scope="row" role="rowheader">${first?.cell(row)}</th>
              ${others.map(
                (column) =>
                  html`<td role="cell" class=${classOf(column)} data-column=${column.name}>${column.cell(row)}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
      ${
        sums.length > 0 &&
        html`<tfoot role="rowgroup">
          ${sums.map(
            ([name, row]) =>
              html`<tr role="row" key=${name}>
                <th scope="row" role="rowheader">${name}</th>
                ${others.map((column) => {
                  const { isNumber, sum = isNumber ? column.cell : () => null } = column;
                  return html`<td role="cell" class=${classOf(column)} data-column=${column.name}>${sum(row)}</td>`;
                })}
              </tr>`,
          )}
        </tfoot>`
      }
    </table>
  </div>`;
}

/** A field of a form. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly value?: string;
  readonly isRequired?: boolean;
  /** The values to choose from, each with its label. */
  readonly choices?: readonly (readonly [value: string, label: string])[];
  readonly type?: "text" | "date" | "lines";
  /** The id of a list of values to choose from, beside others. */
  readonly list?: string;
  /** Lines to choose, beside others. They may come later than the field. */
  readonly offers?: Pick<Signal<readonly string[]>, "value">;
}

/** A dialog that asks for some fields, or only for a yes. */
export interface Question {
  readonly title: string;
  readonly text?: Children;
  readonly fields?: readonly Field[];
  /** The words on the button, such as `Revoke`. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Returns a sentence for the place beside the button: the effect of the values in the fields. */
  readonly note?: (values: Readonly<Record<string, string>>) => string;
  /** Does the work, and resolves with the words for its success. Its changes are those of the dialog. */
  readonly run: (values: Readonly<Record<string, string>>, write: Write) => Promise<string | void>;
}

const question = signal<Question | undefined>(undefined);
/** A secret that is shown once. */
const shownSecret = signal<{ readonly id: string; readonly apiKey: string } | undefined>(undefined);

/** The button that has opened the dialogs. */
let opener: Element | null = null;

export function askUser(asked: Question): void {
  opener = document.activeElement;
  question.value = asked;
}

/** A new secret with the id of its key. Null when the answer with the secret was lost. */
export interface Issued {
  readonly id: string;
  readonly apiKey: string | null;
}

/** Shows a new secret. Returns words where it is lost. */
export function showSecret({ id, apiKey }: Issued): string | void {
  if (apiKey === null)
    return `The new secret of ${id} was lost with its answer, and cannot be shown again. For another one, choose New secret.`;
  shownSecret.value = { id, apiKey };
}

/** Closes the dialog of a question. Comes to nothing when its user has closed the dialog already, and has opened another one. */
function closeQuestion(asked: Question): void {
  if (question.value === asked) question.value = undefined;
}
const closeSecret = (): void => void (shownSecret.value = undefined);
isLoggedIn.subscribe((is) => {
  if (!is) closeSecret();
});

/** Leads the keyboard back to the button that has opened the dialogs, or to the heading of the part where the button is gone. */
function focusBehindDialog(): void {
  // The user may have gone on meanwhile: a key would press the button in place of what the user has chosen.
  const hasGoneOn = document.activeElement !== null && document.activeElement !== document.body;
  if (question.value || shownSecret.value || hasGoneOn) return;
  const target = opener?.isConnected ? opener : document.querySelector("main h2");
  if (target instanceof HTMLElement) target.focus();
}

/** The dialogs of the page. A secret may come after its user has opened another dialog, and stands above that dialog. */
export const Dialogs = (): View =>
  html`${question.value && html`<${QuestionDialog} key=${question.value} asked=${question.value} />`}
  ${shownSecret.value && html`<${SecretDialog} ...${shownSecret.value} />`}`;

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  /** True for a dialog that only its buttons close. Default: Escape closes it, too. */
  readonly isKept?: boolean;
  readonly children?: Children;
}

function Dialog({ title, onClose, isKept = false, children }: DialogProps): View {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    // Wait until the dialog is gone: the page behind an open one takes no focus.
    return () => void setTimeout(focusBehindDialog);
  }, []);
  return html`<dialog ref=${dialog} aria-label=${title} closedby=${isKept ? "none" : "closerequest"} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

/**
 * Returns a function that runs once at a time, and says when it runs: a second click would make the same change, or load the same rows, again.
 */
function useOnce<Arguments extends readonly unknown[]>(
  run: (...args: Arguments) => Promise<void>,
): readonly [run: (...args: Arguments) => Promise<void>, isBusy: boolean] {
  const isRunning = useRef(false);
  const [isBusy, setBusy] = useState(false);
  const setRunning = (is: boolean): void => {
    isRunning.current = is;
    setBusy(is);
  };
  const once = async (...args: Arguments): Promise<void> => {
    if (isRunning.current) return;
    setRunning(true);
    await run(...args).finally(() => setRunning(false));
  };
  return [once, isBusy];
}

/** A button that loads further rows of a list. */
export function More({ name, load, children }: { name: string; load: () => Promise<void>; children?: Children }): View {
  const [loadOnce, isBusy] = useOnce(load);
  // Below a whole list, the button is gone: the keyboard goes on at the list.
  const loadMore = async ({ currentTarget }: MouseEvent): Promise<void> => {
    const list = (currentTarget as Element).closest("section")?.querySelector<HTMLElement>(".scroll");
    await loadOnce();
    if (document.activeElement === document.body) list?.focus({ preventScroll: true });
  };
  return html`<p class="more">
    <button type="button" aria-busy=${isBusy} onClick=${loadMore}>${name}</button> ${children}
  </p>`;
}

/** Says what makes a change of an amount doubtful, as the page writes amounts. Undefined for any other change. */
const doubtOnPage = (change: AmountChange): string | undefined =>
  doubtInWords(change, { amount: amountInWords, currency: pageCurrency.value || undefined, numbers: plain });

/** Asks the user to press the button of a dialog once more. Comes to nothing when the dialog is closed. */
class AskAgain extends Error {}

/**
 * Returns a function that asks the user of a dialog once more for what may be a mistake, and says how to confirm it. Comes to nothing the second
 * time, and without a question.
 */
export function againFor(): (written: string, question: string | undefined, how: string) => void {
  let asked = "";
  return (written, words, how) => {
    if (words === undefined || written === asked) return;
    asked = written;
    throw new AskAgain(`${words} ${how}`);
  };
}

/** A request with an amount. */
interface AmountRequest {
  /** Default: POST. */
  readonly method?: string;
  readonly path: string;
  readonly body: object;
  readonly tag?: string | undefined;
  readonly units: number | undefined;
  /** What the amount changes. Absent for units that are taken. */
  readonly change?: AmountChange | undefined;
}

/**
 * Returns a function that writes an amount, and asks the user of a dialog once more for what the page or the server doubts.
 *
 * @param how Says how to confirm it.
 */
export function writerAsking(how: string): <Body>(request: AmountRequest) => Promise<Answered<Body>> {
  const write = writer();
  let asked = "";
  return async ({ method = "POST", path, body, tag, units = 0, change }) => {
    const written = JSON.stringify(body);
    const doubt = change && doubtOnPage(change);
    if (doubt !== undefined && written !== asked) {
      asked = written;
      throw new AskAgain(`${doubt} ${how}`);
    }
    // Few units that were written as money are no mistake for money.
    const isMoney = pageCurrency.value !== "" && isLittle(units, "amount", pageCurrency.value);
    try {
      return await write(method, path, body, tag, isMoney || written === asked);
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 428)) throw error;
      asked = written;
      throw new AskAgain(error.message.replace(CONFIRM_BY_HEADER, how));
    }
  };
}

/** The field with a value that was refused, and the words of the refusal. */
interface WrongField {
  readonly name: string;
  readonly words: string;
}

/** The fields of errors that do not begin with the name of their field. */
const FIELDS_OF: readonly (readonly [message: RegExp, ...fields: string[]])[] = [
  [/^This id is taken\./, "id"],
  [/^There is no budget of the id /, "budget", "parent"],
  [/ is no time zone\./, "timeZone"],
];

/** Returns the field of an error, whose message begins with the name or the label of the field, or is known to be about it. */
function fieldOf(message: string, fields: readonly Field[]): Field | undefined {
  const [, ...known] = FIELDS_OF.find(([pattern]) => pattern.test(message)) ?? [];
  const [, subject = ""] = /^(.+?)(?: must |: )/.exec(message) ?? [];
  const names = [...known, ...subject.split(".", 1)];
  return fields.find(
    ({ name, label }) => names.includes(name) || label === subject || label.startsWith(`${subject} in `),
  );
}

function QuestionDialog({ asked }: { asked: Question }): View {
  const { title, text, fields = [], action, isDangerous, note, run } = asked;
  const close = (): void => closeQuestion(asked);
  const [written, setWritten] = useState(() => Object.fromEntries(fields.map(({ name, value = "" }) => [name, value])));
  const [write] = useState(writer);
  const failure = useRef<HTMLParagraphElement>(null);
  const [wrong, setWrong] = useState<WrongField | undefined>(undefined);
  useEffect(() => {
    // The field takes the focus only once its error stands beside it: a screen reader then reads both.
    if (wrong) document.getElementById(wrong.name)?.focus();
  }, [wrong]);
  /** Shows a failure in the dialog, beside its field if it has one, and returns false when its user has closed it. */
  const tell = (words: string, field?: Field): boolean => {
    setWrong(field && { name: field.name, words });
    if (failure.current) failure.current.textContent = field ? "" : words;
    return failure.current !== null;
  };
  const valuesIn = (form: HTMLFormElement): Readonly<Record<string, string>> => {
    // Every value is a text: no form has a field for files.
    const data = new FormData(form);
    return Object.fromEntries(fields.map(({ name }) => [name, data.get(name) as string]));
  };
  const [submit, isBusy] = useOnce(async (event: SubmitEvent) => {
    const values = valuesIn(event.target as HTMLFormElement);
    // The same failure again is read again.
    tell("");
    try {
      const done = await run(values, write);
      close();
      await attempt(async () => done);
    } catch (error) {
      // The dialog stays open, with what the user has written.
      const message = error instanceof Error ? error.message : String(error);
      const isTold = tell(message, error instanceof AskAgain ? undefined : fieldOf(message, fields));
      if (!isTold && !(error instanceof AskAgain)) tellFailure(error);
    }
  });
  return html`<${Dialog} title=${title} onClose=${close}>
    <form
      onSubmit=${(event: SubmitEvent) => {
        event.preventDefault();
        void submit(event);
      }}
      onInput=${(event: Event) => {
        // A failure is about what was written before.
        tell("");
        setWritten(valuesIn(event.currentTarget as HTMLFormElement));
      }}
    >
      ${text && html`<p>${text}</p>`}
      ${fields.map(
        (field) =>
          html`<${FormField}
            key=${field.name}
            ...${field}
            written=${written[field.name]}
            error=${wrong?.name === field.name ? wrong.words : undefined}
          />`,
      )}
      <div class="buttons">
        <p class="failure" role="alert" ref=${failure}></p>
        <${LoginBeside} />
        ${note && html`<p class="note-of-form" aria-live="polite">${wrong ? "" : note(written)}</p>`}
        <button type="button" onClick=${close}>Cancel</button>
        <button class=${isDangerous ? "danger" : "main"} aria-busy=${isBusy}>${action}</button>
      </div>
    </form>
  <//>`;
}

/** Leads to the login in another tab, so that what is written stays here. A host without a `loginUrl` may show its login at this page's address. */
const LoginBeside = (): View =>
  isLoggedIn.value
    ? null
    : html`<a class="button main" href=${loginAddress() || here.value} target="_blank">Log in, in a new tab</a>`;

/** The lines of a text, without empty ones. */
export const linesIn = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

/** The part of a line that two lines must not share: its name, or the whole line without one. */
const nameOfLine = (line: string): string => line.replace(/=.*/s, "=");

/** Offers lines for a field. A second press takes a line out again, and a line takes the place of another one with its name. */
function Offers({
  field,
  label,
  lines,
  written,
}: Readonly<Record<"field" | "label" | "written", string>> & { lines: readonly string[] }): View {
  const chosen = linesIn(written);
  const press = (line: string): void => {
    const text = document.getElementById(field) as HTMLTextAreaElement;
    const others = chosen.filter((one) => nameOfLine(one) !== nameOfLine(line));
    text.value = [...others, ...(chosen.includes(line) ? [] : [line])].join("\n");
    text.dispatchEvent(new Event("input", { bubbles: true }));
  };
  return html`<div class="offers" role="group" aria-label=${`Known ${label.toLowerCase()}`}>
    ${lines.map(
      (line) =>
        html`<button type="button" class="small" aria-pressed=${chosen.includes(line)} onClick=${() => press(line)}>
          ${line}
        </button>`,
    )}
  </div>`;
}

function FormField({
  name,
  label,
  hint,
  value = "",
  isRequired,
  choices,
  type = "text",
  list,
  offers,
  written = "",
  error,
}: Field & { written?: string; error?: string }): View {
  const hintId = hint && `${name}-hint`;
  const errorId = error && `${name}-error`;
  const common = {
    id: name,
    name,
    required: isRequired,
    "aria-invalid": error !== undefined,
    "aria-describedby": [errorId, hintId].filter(Boolean).join(" ") || undefined,
  };
  const input = choices
    ? // Without a value of its own: another rendering would set it again, over the choice of the user.
      html`<select ...${common}>
        ${choices.map(([one, words]) => html`<option value=${one} selected=${one === value}>${words}</option>`)}
      </select>`
    : type === "lines"
      ? html`<textarea ...${common} rows="3" defaultValue=${value}></textarea>`
      : html`<input ...${common} type=${type} list=${list} defaultValue=${value} autocomplete="off" />`;
  return html`<div class="field">
    <label for=${name}>${label}</label>
    ${input} ${error && html`<p class="failure" id=${errorId} role="alert">${error}</p>`}
    ${hint && html`<p class="hint" id=${hintId}>${hint}</p>`}
    ${offers && offers.value.length > 0 && html`<${Offers} field=${name} label=${label} lines=${offers.value} written=${written} />`}
  </div>`;
}

function SecretDialog({ id, apiKey }: { id: string; apiKey: string }): View {
  const [secret, copied] = [useRef<HTMLElement>(null), useRef<HTMLSpanElement>(null)];
  const copySecret = async (): Promise<void> => {
    const words = await copy(apiKey, secret.current ?? document.body).then(
      () => "Copied.",
      ({ message }: Error) => message,
    );
    if (copied.current) copied.current.textContent = words;
  };
  return html`<${Dialog} title=${`The secret of ${id}`} isKept=${true} onClose=${closeSecret}>
    <p>Keep it now: it cannot be shown again.</p>
    <p><code class="secret" ref=${secret}>${apiKey}</code></p>
    <div class="buttons">
      <span role="status" ref=${copied}></span>
      <button type="button" onClick=${copySecret}>Copy</button>
      <button type="button" class="main" onClick=${closeSecret}>I have it</button>
    </div>
  <//>`;
}

/** Shows a part of a sum. */
export const Bar = ({ used, of }: { used: number; of: number }): View =>
  html`<meter class="part" min="0" max=${Math.max(1, of)} value=${used} aria-hidden="true"></meter>`;

/** The used part of an amount from which its bar warns. */
const HIGH = 0.8;

/** The units that a key or a budget has spent, and its rest. */
interface Books {
  readonly spent: number;
  /** The units that running calls may still cost. */
  readonly held: number;
  /** The part of `spent` that goes beyond what was granted. */
  readonly overdraft: number;
}

/** The share of what was granted. Undefined for a key without a quota of its own. */
type Grant = { readonly granted: number; readonly available: number } | undefined;

/** Returns the column of what is spent: with what running calls hold, the overdrawn part, and a bar of the share, which warns when nothing is left. */
export function spentColumn<Row>(
  rows: readonly Row[],
  booksOf: (row: Row) => Books,
  grantOf: (row: Row) => Grant,
): Column<Row> {
  const amount = amountsIn(
    rows.map((row) => booksOf(row).spent),
    "up",
  );
  return {
    name: amountsNamed("Spent"),
    isNumber: true,
    cell: (row) => {
      const { spent, held, overdraft } = booksOf(row);
      const grant = grantOf(row);
      return html`${amount(spent)}
      ${held > 0 && html`<span class="quiet long">running calls hold <${Amount} of=${held} rounding="up" /></span>`}
      ${overdraft > 0 && html`<span class="empty overdrawn"><${Amount} of=${overdraft} rounding="up" /> overdrawn</span>`}
      ${grant && grant.granted > 0 && html`<${Share} used=${spent} of=${grant.granted} left=${grant.available} />`}`;
    },
  };
}

/** Shows how much of what was granted is used. Overdrawn units count as used, and the bar is full then. */
const Share = ({ used, of, left }: { used: number; of: number; left: number }): View =>
  html`<span class="share quiet"
    >${shareOf(used, of)}<span class="unseen"> of granted</span>
    <meter
      class=${left <= 0 || used >= of ? "empty" : ""}
      value=${Math.min(1, used / of)}
      high=${HIGH}
      aria-hidden="true"
    ></meter
  ></span>`;

/** Says by a word and a colour that nothing is left. Running calls may hold the rest. */
export const Nothing = ({ more = "" }: { more?: string }): View => html`<span class="empty">nothing left${more}</span>`;

/** Links to the spend and the refusals of something. Screen readers hear its name with them. */
export const CallLinks = ({ name, spend, refusals }: { name: string; spend: Choices; refusals: Choices }): View =>
  html`<span class="quiet links">
    <a href=${addressOf("spend", spend)} onClick=${follow}>Spend<span class="unseen"> of ${name}</span></a
    >${" "}
    <a href=${addressOf("calls", refusals)} onClick=${follow}>Refusals<span class="unseen"> of ${name}</span></a>
  </span>`;

/** A labelled list of choices, which sets a signal. An address may have chosen another value, which is listed, too. */
export const Select = ({
  label,
  of,
  choices,
  onChange,
}: {
  label: string;
  of: Pick<Signal<string>, "value">;
  choices: readonly (readonly [value: string, label: string])[];
  onChange: () => unknown;
}): View =>
  html`<label
    >${label}
    <select
      value=${of.value}
      onChange=${(event: Event) => {
        of.value = (event.target as HTMLSelectElement).value;
        void onChange();
      }}
    >
      ${choices.map(([value, words]) => html`<option value=${value}>${words}</option>`)}
      ${choices.every(([value]) => value !== of.value) && html`<option value=${of.value}>${of.value}</option>`}
    </select>
  </label>`;

/** The readers of CSV. */
const READERS = [
  ["excel", "Excel (12.50)"],
  ["excel-europe", "Excel (12,50)"],
  ["", "programs"],
] as const;

/** The chosen spreadsheet for CSV; empty for programs. Default: the one with the decimal mark of this page. */
const spreadsheet = signal(amountOf(1.5, "").includes(",") ? "excel-europe" : "excel");

const CsvReader = (): View =>
  html`<${Select} label="CSV for" of=${spreadsheet} choices=${READERS} onChange=${() => {}} />`;

const save = (event: MouseEvent): void => {
  event.preventDefault();
  void attempt(() => saveCsv((event.currentTarget as HTMLAnchorElement).href));
};

/**
 * Links to a report as CSV, beside a choice of its reader.
 *
 * @param addressOf Adds the choices of the file to the address of the report.
 */
export function Csv({
  addressOf,
  currency,
}: {
  addressOf: (file: Readonly<Record<string, string>>) => string;
  currency: string;
}): View {
  const reader = spreadsheet.value ? { spreadsheet: spreadsheet.value } : { format: "csv" };
  return html`<${CsvReader} />
    <a class="button" href=${addressOf({ ...reader, ...(currency && { currency }) })} onClick=${save}>CSV</a>`;
}

/** The most rows that a file is made of. */
const MOST_IN_FILE = 50_000;

/**
 * A button that saves a whole list as CSV, also the rows that the page does not show, beside a choice of its reader.
 *
 * @param name The name of the list and of its file.
 * @param pages Reads the list with the filters that are chosen.
 * @param matches False for a row that the list leaves out. Default: every row is in the list.
 * @param csvOf Writes the rows for a reader; for programs without a spreadsheet.
 */
export function CsvOfList<Row>({
  name,
  pages,
  matches = () => true,
  csvOf,
}: {
  name: string;
  pages: () => AsyncIterable<readonly Row[]>;
  matches?: (row: Row) => boolean;
  csvOf: (rows: readonly Row[], spreadsheet: Spreadsheet | undefined) => Iterable<string>;
}): View {
  const [saveOnce, isBusy] = useOnce(async () => {
    await attempt(async () => {
      const rows: Row[] = [];
      let read = 0;
      for await (const page of pages()) {
        read += page.length;
        if (read > MOST_IN_FILE)
          throw new Error(
            `The list has more than ${plain.format(MOST_IN_FILE)} rows, which are too many for a file: choose a filter.`,
          );
        rows.push(...page.filter(matches));
      }
      const reader = (spreadsheet.value || undefined) as Spreadsheet | undefined;
      const file = `${name}-${dayIn(undefined, Date.now())}.csv`;
      saveFile(new Blob([...csvOf(rows, reader)], { type: "text/csv" }), file);
      return `${file} has ${plain.format(rows.length)} ${rows.length === 1 ? "row" : "rows"}.`;
    });
  });
  return html`<${CsvReader} /> <button type="button" aria-busy=${isBusy} onClick=${saveOnce}>CSV</button>`;
}

/**
 * The filters of a list, and its file. On a narrow screen, they stand behind a button, so that the list is in sight.
 *
 * @param chosen The number of filters that are chosen, for the button. Default: the button tells none.
 */
export function Filters({ chosen = 0, children }: { chosen?: number; children: Children }): View {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  return html`<button
      type="button"
      class="fold"
      aria-expanded=${isOpen}
      aria-controls=${id}
      onClick=${() => setOpen(!isOpen)}
    >
      Filters and CSV${chosen > 0 && ` (${plain.format(chosen)} chosen)`}
    </button>
    <div class=${`filters ${isOpen ? "unfolded" : ""}`} id=${id}>${children}</div>`;
}

/** A labelled field that filters a list, and sets a signal. */
export const Filter = ({
  label,
  hint,
  of,
  list,
  example,
  onChange,
}: {
  label: string;
  hint?: string;
  of: Pick<Signal<string>, "value">;
  list?: string;
  example?: string;
  onChange: () => unknown;
}): View =>
  html`<label
    >${label}
    <input
      type="search"
      title=${hint}
      list=${list}
      placeholder=${example}
      value=${of.value}
      autocomplete="off"
      onChange=${(event: Event) => {
        of.value = (event.target as HTMLInputElement).value.trim();
        void onChange();
      }}
    />
  </label>`;

/** Shows the filters that a link has chosen and that have no field, each with a button that removes it. */
export const Chips = ({ of, onRemove }: { of: Scope; onRemove: (rest: Scope) => unknown }): View =>
  html`<ul class="chips" aria-label="Filters">
    ${Object.entries(of).map(([name, value]) => {
      if (name === "budget" && value !== "") return null;
      const rest = Object.fromEntries(Object.entries(of).filter(([other]) => other !== name));
      return html`<li>
        <button type="button" class="small" onClick=${() => onRemove(rest)}>
          <span class="unseen">Remove the filter </span>${wordsOf(name, value)} <span aria-hidden="true">×</span>
        </button>
      </li>`;
    })}
  </ul>`;

/** A labelled day, which sets a signal. An address may have another text, which a field for days would not show. */
export const DayField = ({
  label,
  of,
  onChange,
}: {
  label: string;
  of: Signal<string>;
  onChange: () => unknown;
}): View =>
  html`<label
    >${label}
    <input
      type=${of.value === "" || isDay(of.value) ? "date" : "text"}
      value=${of.value}
      onChange=${(event: Event) => {
        of.value = (event.target as HTMLInputElement).value;
        void onChange();
      }}
    />
  </label>`;

/** The id of the list of budgets, for fields. */
export const BUDGETS = "known-budgets";

/** A list of budgets to choose from. */
export const BudgetList = ({ of }: { of: readonly { readonly id: string; readonly name: string }[] }): View =>
  html`<datalist id=${BUDGETS}>
    ${of.map(({ id, name }) => html`<option value=${id}>${name === id ? "" : name}</option>`)}
  </datalist>`;

/** Copies a text. Selects it first on a page without TLS, where the browser copies only a selection. */
async function copy(text: string, shown: Element): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection()?.selectAllChildren(shown);
    if (!document.execCommand("copy")) throw new Error("The browser copies nothing here. The text is selected.");
  }
}

/**
 * Shows the id of a call, with a button that copies it. A list shows only the beginning of the id, which is enough to find the call.
 *
 * @param isWhole Shows the whole id, too.
 * @param isLink False on a host without records of calls.
 */
export function CallId({
  id,
  isWhole = false,
  isLink = true,
}: {
  id: string;
  isWhole?: boolean;
  isLink?: boolean;
}): View {
  const code = useRef<HTMLElement>(null);
  const copyId = (): Promise<boolean> =>
    attempt(async () => {
      if (code.current) await copy(id, code.current);
      return `${id} is copied.`;
    });
  const shown = html`<code ref=${code} class=${isWhole ? "" : "beginning"} title=${id}>${id}</code>`;
  return html`<span class="call-id"
    >${isLink ? html`<a href=${addressOf("calls", { call: id })} onClick=${follow}>${shown}</a>` : shown}
    <button type="button" class="plain" onClick=${copyId}>Copy<span class="unseen"> ${id}</span></button></span
  >`;
}

/** Shows a text that a narrow column breaks behind its signs first, such as `backend_overloaded` or `ann@example.com`. */
export const Breakable = ({ text }: { text: string }): View =>
  html`<span>${text.split(/(?<=[_@/:,])/).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`)}</span>`;

/** Shows the code of an error, which is broken on a narrow screen alone. */
export const Code = ({ word }: { word: string }): View => html`<span class="word"><${Breakable} text=${word} /></span>`;

/** The distance of a menu from its button, and the room that it takes below the button at most, in pixels. */
const [MENU_GAP, MENU_ROOM] = [4, 240];

/** Puts a menu below its button, or above it where the window ends, at the side where there is more room. */
function placeMenu(menu: HTMLElement, button: HTMLElement): void {
  const { top, bottom, left, right } = button.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const [isAbove, isLeft] = [bottom + MENU_ROOM > clientHeight && top > MENU_ROOM, left < clientWidth - right];
  // The positions are those in the document: the menu scrolls with it.
  Object.assign(menu.style, {
    top: isAbove ? "auto" : `${bottom + scrollY + MENU_GAP}px`,
    bottom: isAbove ? `${clientHeight - top - scrollY + MENU_GAP}px` : "auto",
    left: isLeft ? `${left + scrollX}px` : "auto",
    right: isLeft ? "auto" : `${clientWidth - right - scrollX}px`,
  });
}

/** The steps of the keys that lead through an open menu. */
const MENU_STEPS = new Map([
  ["ArrowDown", 1],
  ["ArrowUp", -1],
]);

/** The rare buttons of a row, behind one. The browser closes them with Escape, and with a click elsewhere. */
export function RowMenu({ row, children }: { row: string; children: Children }): View {
  const [id, button, menu] = [useId(), useRef<HTMLButtonElement>(null), useRef<HTMLDivElement>(null)];
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = MENU_STEPS.get(event.key);
    if (step === undefined || !menu.current?.matches(":popover-open")) return;
    event.preventDefault();
    const all = [button.current, ...menu.current.querySelectorAll("button")];
    all.at((all.findIndex((one) => one === document.activeElement) + step) % all.length)?.focus();
  };
  return html`<button type="button" class="small" ref=${button} popovertarget=${id} onKeyDown=${onKeyDown}>
      More<span class="unseen"> for ${row}</span>
    </button>
    <div
      id=${id}
      class="menu"
      popover="auto"
      ref=${menu}
      onBeforeToggle=${() => menu.current && button.current && placeMenu(menu.current, button.current)}
      onClickCapture=${() => menu.current?.hidePopover()}
      onKeyDown=${onKeyDown}
    >
      ${children}
    </div>`;
}

/** A button for one row of a table. Screen readers hear the row's name with it. */
export const RowButton = ({ name, row, onClick }: { name: string; row: string; onClick: () => void }): View =>
  html`<button type="button" class="small" onClick=${onClick}>${name}<span class="unseen"> ${row}</span></button>`;
