/** Hosts in a runtime of their own: a gateway in another process, whose backend and quota are those of the test. */

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TestHost } from "./host.ts";
import { pack } from "./remote/pack.ts";
import { Peer } from "./remote/peer.ts";
import { Stages } from "./remote/stages.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A host that a runtime runs with a script of this folder. */
export function remoteHost(name: string, script: string, args: readonly string[] = []): TestHost {
  const command = `${root}node_modules/.bin/${name}`;
  let stages: Stages | undefined;
  return {
    name,
    available: existsSync(command),
    mounts: ["/ai"],
    ownRoutes: true,
    start: (options, prefix = "") =>
      (stages ??= startRuntime(command, [...args, `${root}test/hosts/${script}`])).open(options, prefix),
  };
}

/** Starts a runtime's process, which holds the gateways of many stages. It ends with the process of the tests. */
function startRuntime(command: string, args: readonly string[]): Stages {
  const answers = namedPipe();
  const child = spawn(command, [...args, answers], { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
  child.unref();
  const stages: Stages = new Stages((method, ...asked) => peer.call(method, ...asked));
  const peer = new Peer((line) => void child.stdin.write(line), {
    ...stages.handlers,
    optionAtOnce: (id: number, path: string, asked: unknown[]) =>
      writeFile(answers, JSON.stringify(pack(stages.option(id, path, asked)))),
  });
  createInterface({ input: child.stdout }).on("line", peer.receive);
  child.on("exit", (code) => peer.end(new Error(`The runtime has ended with code ${code}.`)));
  return stages;
}

/** A pipe with a name, for answers that a process stands still for; that process removes its folder when it ends. */
function namedPipe(): string {
  const path = join(mkdtempSync(join(tmpdir(), "polygate-runtime-")), "answers");
  execFileSync("mkfifo", [path]);
  return path;
}
