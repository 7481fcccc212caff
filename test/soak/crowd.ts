/** A crowd at one host: thousands of idle WebSockets and streams, hundreds of unread ones and large uploads, with mixed traffic between them. */

import { MANNERS } from "../drivers/raw-client.ts";
import { Random } from "../trial/random.ts";
import { crowdPayer, FORMS, type Form, headOf, requestOf, type Script, scriptOf } from "./calls.ts";
import { Connection } from "./clients.ts";
import { type Left, leftOf, moreMib, round, type Soaked, Traffic } from "./soak.ts";
import { type Rest, type SoakHost, Subject } from "./subject.ts";

export interface CrowdPlan {
  /** WebSockets that are quiet behind their first turn. */
  readonly sockets: number;
  /** Streams whose backends pause after the first piece. */
  readonly idle: number;
  /** Streams of endless backends to clients that read nothing. */
  readonly unread: number;
  /** Uploads at the same time, and the bytes of each. */
  readonly uploads: number;
  readonly uploadBytes: number;
  /** Calls that end, and streams to replace, in each round. */
  readonly completions: number;
  readonly replaced: number;
  /** The rounds of a first crowd, which comes and goes before the first count. */
  readonly warmUpRounds: number;
  /** Returns true when another round follows after this number of rounds. */
  readonly goesOn: (rounds: number) => boolean;
  readonly seed: number;
}

export interface Crowded extends Soaked {
  readonly rounds: number;
  readonly uploads: number;
  /** Streams that were cut although their clients were there: of clients that read, and of clients that did not. */
  readonly cutIdle: number;
  readonly cutUnread: number;
  /** Memory after each round, while the crowd stands, after a collection of all garbage. */
  readonly standing: readonly Pick<Rest, "heapBytes" | "bufferBytes">[];
  /** Memory for each quiet WebSocket, on the heap and outside, in bytes. */
  readonly socketBytes: number;
}

const POLICY = "cancels";
/** The number of clients that come or go at the same time. */
const TOGETHER = 250;
/** A piece of an endless stream. A larger piece would take longer and test nothing more. */
const ENDLESS_BYTES = 64 * 1024;

const streamed = FORMS.filter((form) => form.streamed);
const SOCKET = FORMS.find((form) => form.overSocket) as Form;

/** Holds a crowd at a host, from its start to its end. */
export async function crowd(host: SoakHost, plan: CrowdPlan): Promise<Crowded> {
  await using subject = new Subject(host);
  await subject.open();
  const traffic = new Traffic(subject);
  const visitors = new Visitors(subject, traffic, plan);
  await visitors.visit((rounds) => rounds < plan.warmUpRounds);
  const before = await subject.atRest();

  const visit = await visitors.visit(plan.goesOn);
  const after = await subject.atRest(before);

  const { completions, hangUps, units, falseAborts } = traffic;
  const closedAtOnce = await subject.close();
  return { ...visit, completions, hangUps, units, falseAborts, before, after, delaysMs: [], timedMs: [], closedAtOnce };
}

/** An open stream. `fired` resolves when its call is cut. */
interface Standing {
  readonly id: number;
  readonly connection: Connection;
  readonly fired: Promise<void>;
  readonly isRead: boolean;
}

class Visitors {
  readonly #subject: Subject;
  readonly #traffic: Traffic;
  readonly #plan: CrowdPlan;
  readonly #random: Random;
  readonly #picture: Uint8Array;

  constructor(subject: Subject, traffic: Traffic, plan: CrowdPlan) {
    this.#subject = subject;
    this.#traffic = traffic;
    this.#plan = plan;
    this.#random = new Random(plan.seed);
    this.#picture = pictureOf(plan.uploadBytes);
  }

  /** Opens the crowd, keeps it for as many rounds as `goesOn` says, and ends it. */
  async visit(
    goesOn: CrowdPlan["goesOn"],
  ): Promise<Pick<Crowded, "rounds" | "uploads" | "cutIdle" | "cutUnread" | "standing" | "socketBytes">> {
    const { sockets, idle, unread, completions, replaced } = this.#plan;
    const alone = await this.#subject.memory();
    const quiet = await this.#connect(sockets);
    const crowded = await this.#subject.memory();
    const grownBytes = crowded.heapBytes - alone.heapBytes + crowded.bufferBytes - alone.bufferBytes;
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
        this.#traffic.complete(completions),
        this.#traffic.hangUp(1, () => round(rounds)),
        this.#go(leaving),
      ]);
      uploads += uploaded[0];
      const read = leaving.filter(({ isRead }) => isRead).length;
      standing.push(...(await this.#come(read, true)), ...(await this.#come(leaving.length - read, false)));
      // A broken-off upload may still be there on a busy machine. Memory outside the heap is judged at rest.
      const heapBytes = Math.max(...memory.map((earlier) => earlier.heapBytes));
      memory.push(await this.#subject.memory(rounds === 0 ? undefined : { heapBytes, bufferBytes: Infinity }));
    }
    // Each takes another turn: none was lost while it was quiet.
    await inGroups(quiet, async (connection) => this.#traffic.turn(connection));
    for (const connection of quiet) connection.hangUp("closes");
    await this.#go(standing);
    this.#subject.forget();
    return { rounds, uploads, cutIdle, cutUnread, standing: memory, socketBytes: grownBytes / sockets };
  }

  /** Opens WebSockets, each with one turn. */
  #connect(count: number): Promise<Connection[]> {
    return inGroups(Array.from({ length: count }), async (_none, index) => {
      const connection = new Connection(this.#subject.port(POLICY));
      await connection.upgrade(SOCKET, crowdPayer(index));
      await this.#traffic.turn(connection);
      return connection;
    });
  }

  /** Removes some of the open streams by chance, and returns these. */
  #draw(standing: Standing[], count: number): Standing[] {
    return Array.from({ length: Math.min(count, standing.length) }, () =>
      standing.splice(this.#random.int(0, standing.length - 1), 1),
    ).flat();
  }

  /** Opens streams, and waits until the backend of each pauses. */
  #come(count: number, isRead: boolean): Promise<Standing[]> {
    return inGroups(Array.from({ length: count }), async () => {
      const id = this.#traffic.nextToCut();
      const form = streamed[id % streamed.length] as Form;
      const waits: Script = { ...scriptOf(id), waitsAfter: 1 };
      const script: Script = isRead ? waits : { ...waits, endlessBytes: ENDLESS_BYTES };
      const [waiting, fired] = [this.#subject.waiting(id), this.#subject.firing(id)];
      const connection = new Connection(this.#subject.port(POLICY), isRead);
      await connection.upgrade(form, crowdPayer(id));
      await connection.send(requestOf(form, script, crowdPayer(id)));
      await waiting;
      if (!isRead) await this.#subject.goOn([id]);
      return { id, connection, fired, isRead };
    });
  }

  /** Hangs up in all manners, and waits until each call is cut. */
  async #go(leaving: readonly Standing[]): Promise<void> {
    await inGroups(leaving, async ({ connection, fired, isRead }) => {
      // A client that does not read must not half-close: the gateway cannot tell it from a slow client.
      const manners = isRead ? MANNERS : MANNERS.filter((manner) => manner !== "half-closes");
      connection.hangUp(manners[this.#random.int(0, manners.length - 1)] ?? "closes");
      await fired;
      connection.hangUp("closes");
    });
  }

  /** Sends uploads at the same time; every fourth breaks off. Returns the number of answers. */
  async #upload(): Promise<number> {
    const breaks = Array.from({ length: this.#plan.uploads }, (_, index) =>
      index % 4 === 3 ? this.#random.next() : 1,
    );
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

/** Acts on each item, in groups of parallel actions. */
async function inGroups<Item, Result>(
  items: readonly Item[],
  act: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += TOGETHER)
    results.push(...(await Promise.all(items.slice(at, at + TOGETHER).map((item, index) => act(item, at + index)))));
  return results;
}

/** The parts of an upload before and after its picture. */
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

/** Makes a JPEG of one pixel, filled up to this length. */
function pictureOf(bytes: number): Uint8Array {
  const start = [0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 1, 0, 1, 1, 1, 0x11, 0, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0];
  const picture = new Uint8Array(bytes);
  picture.set(start);
  picture.set([0xff, 0xd9], bytes - 2);
  return picture;
}

/** The counts of a crowd, with the growth in whole MiB of the heap while the crowd stood, and of memory outside the heap. */
export interface CrowdLeft extends Left {
  readonly cutIdle: number;
  readonly moreStandingMib: number;
  readonly moreBufferMib: number;
}

export function crowdLeftOf(crowded: Crowded): CrowdLeft {
  const { before, after, standing } = crowded;
  const heaps = standing.map(({ heapBytes }) => heapBytes);
  const half = Math.ceil(heaps.length / 2);
  // Growth is certain only when every value of the second half is above all values of the first.
  return {
    ...leftOf(crowded),
    cutIdle: crowded.cutIdle,
    moreStandingMib: moreMib(Math.max(...heaps.slice(0, half)), Math.min(...heaps.slice(half))),
    moreBufferMib: moreMib(before.bufferBytes, after.bufferBytes),
  };
}
