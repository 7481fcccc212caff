/** A crowd at one host: thousands of idle streams, hundreds of unread ones and large uploads, with mixed traffic between them. */

import { MANNERS } from "../drivers/raw-client.ts";
import { between, seeded } from "../crash/order.ts";
import { crowdPayer, FORMS, type Form, headOf, requestOf, type Script, scriptOf } from "./calls.ts";
import { Connection } from "./connection.ts";
import type { SoakHost } from "./hosts.ts";
import { round, Run, type Soaked } from "./soak.ts";
import { type Rest, Subject } from "./subject.ts";

export interface CrowdPlan {
  /** Streams whose backends say nothing after the first piece. */
  readonly idle: number;
  /** Streams whose clients read nothing, of backends that never end. */
  readonly unread: number;
  /** Uploads that go on at the same time, each of so many bytes. */
  readonly uploads: number;
  readonly uploadBytes: number;
  /** Calls that end and streams that are replaced, in each round. */
  readonly completions: number;
  readonly replaced: number;
  /** Rounds of a first crowd, which comes and goes before the first count. */
  readonly warmUpRounds: number;
  /** Whether a round follows, after so many rounds. */
  readonly goesOn: (rounds: number) => boolean;
  readonly seed: number;
}

export interface Crowded extends Soaked {
  readonly rounds: number;
  readonly uploads: number;
  /** Streams that were cut though their clients had not gone: of clients that read, and of clients that took nothing for a while. */
  readonly cutIdle: number;
  readonly cutUnread: number;
  /** Memory while the crowd stands, round by round, once all garbage is collected. */
  readonly standing: readonly Pick<Rest, "heapBytes" | "bufferBytes">[];
}

const POLICY = "cancels";
/** How many clients of a crowd come or go at the same time. */
const TOGETHER = 250;
/** More at once than the buffers between two sockets hold would say nothing else, and take longer. */
const ENDLESS_BYTES = 64 * 1024;

const streamed = FORMS.filter((form) => form.streamed);

/** One host, from its start to its end. */
export async function crowd(host: SoakHost, plan: CrowdPlan): Promise<Crowded> {
  await using subject = new Subject(host);
  await subject.open();
  const run = new Run(subject);
  const visitors = new Visitors(subject, run, plan);
  await visitors.visit((rounds) => rounds < plan.warmUpRounds);
  const before = await subject.atRest();

  const visit = await visitors.visit(plan.goesOn);
  const after = await subject.atRest(before);

  const { completions, hangUps, units, falseAborts } = run;
  const closedAtOnce = await subject.close();
  return { ...visit, completions, hangUps, units, falseAborts, before, after, delaysMs: [], timedMs: [], closedAtOnce };
}

/** A stream that stands: its connection, and the moment at which its call is cut. */
interface Standing {
  readonly id: number;
  readonly connection: Connection;
  readonly fired: Promise<void>;
  readonly isRead: boolean;
}

class Visitors {
  readonly #subject: Subject;
  readonly #run: Run;
  readonly #plan: CrowdPlan;
  readonly #random: () => number;
  readonly #picture: Uint8Array;

  constructor(subject: Subject, run: Run, plan: CrowdPlan) {
    this.#subject = subject;
    this.#run = run;
    this.#plan = plan;
    this.#random = seeded(plan.seed);
    this.#picture = pictureOf(plan.uploadBytes);
  }

  /** Comes, stays for as many rounds as there are, and goes. */
  async visit(
    goesOn: CrowdPlan["goesOn"],
  ): Promise<Pick<Crowded, "rounds" | "uploads" | "cutIdle" | "cutUnread" | "standing">> {
    const { idle, unread, completions, replaced } = this.#plan;
    let standing = [...(await this.#come(idle, true)), ...(await this.#come(unread, false))];
    const memory: Crowded["standing"][number][] = [];
    let [rounds, uploads, cutIdle, cutUnread] = [0, 0, 0, 0];
    for (; goesOn(rounds); rounds++) {
      const isCut = ({ id }: Standing): boolean => this.#subject.fired.has(id);
      const leaving = standing.filter(isCut);
      standing = standing.filter((stream) => !isCut(stream));
      cutIdle += leaving.filter(({ isRead }) => isRead).length;
      cutUnread += leaving.filter(({ isRead }) => !isRead).length;
      leaving.push(...this.#draw(standing, replaced));
      const uploaded = await Promise.all([
        this.#upload(),
        this.#run.complete(completions),
        this.#run.hangUp(1, () => round(rounds)),
        this.#go(leaving),
      ]);
      uploads += uploaded[0];
      const read = leaving.filter(({ isRead }) => isRead).length;
      standing.push(...(await this.#come(read, true)), ...(await this.#come(leaving.length - read, false)));
      memory.push(await this.#subject.memory());
    }
    await this.#go(standing);
    this.#subject.forget();
    return { rounds, uploads, cutIdle, cutUnread, standing: memory };
  }

  /** Takes some of the streams that stand, by chance. */
  #draw(standing: Standing[], count: number): Standing[] {
    return Array.from({ length: Math.min(count, standing.length) }, () =>
      standing.splice(between(this.#random, 0, standing.length - 1), 1),
    ).flat();
  }

  /** Opens streams, and waits until the backend of each has nothing to do, or nobody who takes more. */
  #come(count: number, isRead: boolean): Promise<Standing[]> {
    return inGroups(Array.from({ length: count }), async () => {
      const id = this.#run.nextToCut();
      const form = streamed[id % streamed.length] as Form;
      const waits: Script = { ...scriptOf(id), waitsAfter: 1 };
      const script: Script = isRead ? waits : { ...waits, endlessBytes: ENDLESS_BYTES };
      const [waiting, fired] = [this.#subject.waiting(id), this.#subject.firing(id)];
      const connection = new Connection(this.#subject.port(POLICY), isRead);
      await connection.send(requestOf(form, script, crowdPayer(id)));
      await waiting;
      if (!isRead) await this.#subject.goOn([id]);
      return { id, connection, fired, isRead };
    });
  }

  /** Hangs up in every manner, and waits until each call is cut. */
  async #go(leaving: readonly Standing[]): Promise<void> {
    await inGroups(leaving, async ({ connection, fired, isRead }) => {
      // A client that reads nothing and half-closes looks like one that is slow.
      const manners = isRead ? MANNERS : MANNERS.filter((manner) => manner !== "half-closes");
      connection.hangUp(manners[between(this.#random, 0, manners.length - 1)] ?? "closes");
      await fired;
      connection.hangUp("closes");
    });
  }

  /** Uploads at the same time, of which every fourth breaks off; how many were answered. */
  async #upload(): Promise<number> {
    const breaks = Array.from({ length: this.#plan.uploads }, (_, index) => (index % 4 === 3 ? this.#random() : 1));
    await Promise.all(
      breaks.map(async (share, index) => {
        const connection = new Connection(this.#subject.port(POLICY));
        const { head, end } = FORM;
        const length = head.length + this.#picture.length + end.length;
        const start = `${headOf("/v1/images/edits", crowdPayer(index), FORM.type, length)}\r\n${head}`;
        if (share === 1) {
          const asking = connection.ask(start);
          const sending = [this.#picture, end].map((piece) => connection.send(piece));
          const [[answer = ""]] = await Promise.all([asking, ...sending]);
          if (!answer.startsWith("HTTP/1.1 200 "))
            throw new Error(`An upload is not answered: ${answer.slice(0, 1_000)}`);
        } else {
          await connection.send(start);
          await connection.send(this.#picture.subarray(0, Math.floor(share * this.#picture.length)));
        }
        connection.hangUp("closes");
      }),
    );
    return breaks.filter((share) => share === 1).length;
  }
}

/** Does the same for each, so many at a time. */
async function inGroups<Item, Result>(items: readonly Item[], act: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += TOGETHER)
    results.push(...(await Promise.all(items.slice(at, at + TOGETHER).map(act))));
  return results;
}

/** What stands before and after the picture in an upload. */
const FORM = {
  type: "multipart/form-data; boundary=crowd",
  head: [
    ...[
      ["model", "image-model-multi"],
      ["prompt", "A red hat"],
      ["response_format", "b64_json"],
    ].map(([name, value]) => `--crowd\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`),
    '--crowd\r\ncontent-disposition: form-data; name="image"; filename="hat.jpg"\r\ncontent-type: image/jpeg\r\n\r\n',
  ].join(""),
  end: "\r\n--crowd--\r\n",
};

/** A JPEG of one pixel, whose pixels take as many bytes as it needs to be that long. */
function pictureOf(bytes: number): Uint8Array {
  const start = [0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 1, 0, 1, 1, 1, 0x11, 0, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0];
  const picture = new Uint8Array(bytes);
  picture.set(start);
  picture.set([0xff, 0xd9], bytes - 2);
  return picture;
}
