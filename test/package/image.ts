/**
 * Runs a Dockerfile: as an image, where Docker or Podman has a running engine. Elsewhere, the steps run in a folder of this machine, which tests
 * their commands and files, but neither the base image nor its user.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, glob, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, run, runOrThrow } from "./stage.ts";

/** A started image. */
export interface RunningImage {
  readonly url: string;
  /** Runs a command in the image, and returns its output. */
  run(command: readonly string[]): Promise<string>;
  /** Runs the health check, and returns its exit code. */
  check(): Promise<number>;
  /** Tells the command of the image to end, and returns its exit code. */
  stop(): Promise<number>;
}

type Variables = Readonly<Record<string, string>>;

/** An instruction, on one line. */
type Step = readonly [word: string, rest: string];

/** Builds an image in a folder, and starts its command, which listens at port 3000 of the image, or at `freePort` of this machine. */
export async function startImage(
  folder: string,
  dockerfile: string,
  env: Variables,
  freePort: string,
): Promise<RunningImage> {
  const steps = Array.from(dockerfile.matchAll(/^([A-Z]+) (.+)$/gm), ([, word = "", rest = ""]): Step => [word, rest]);
  for (const engine of ["docker", "podman"])
    if ((await run(engine, ["info"], ROOT)).code === 0) return startBuilt(engine, folder, dockerfile, steps, env);
  return startSteps(folder, steps, { ...env, HOST: "127.0.0.1", PORT: freePort });
}

/** Parses the command of a step. */
const commandOf = (steps: readonly Step[], of: string): readonly string[] =>
  steps.flatMap(([word, rest]) => (word === of ? (JSON.parse(rest.replace(/^CMD /, "")) as string[]) : []));

async function startBuilt(
  engine: string,
  folder: string,
  dockerfile: string,
  steps: readonly Step[],
  env: Variables,
): Promise<RunningImage> {
  const name = `polygate-test-${process.pid}`;
  const ask = (...args: readonly string[]): Promise<string> => runOrThrow(engine, args, folder);
  await writeFile(join(folder, "Dockerfile"), dockerfile);
  await ask("build", "--tag", name, ".");
  const variables = Object.entries(env).flatMap(([key, value]) => ["--env", `${key}=${value}`]);
  await ask("run", "--detach", "--name", name, "--publish", "127.0.0.1::3000", ...variables, name);
  const [, port = ""] = /:(\d+)\s*$/.exec(await ask("port", name, "3000/tcp")) ?? [];
  return {
    url: `http://127.0.0.1:${port}`,
    run: (command) => ask("exec", name, ...command),
    check: async () => (await run(engine, ["exec", name, ...commandOf(steps, "HEALTHCHECK")], folder)).code,
    async stop() {
      await ask("stop", "--time", "60", name);
      const code = Number(await ask("inspect", "--format", "{{.State.ExitCode}}", name));
      await ask("rm", name);
      await ask("rmi", name);
      return code;
    },
  };
}

async function startSteps(folder: string, steps: readonly Step[], env: Variables): Promise<RunningImage> {
  const place = await mkdtemp(join(tmpdir(), "polygate-image-"));
  // The steps may empty the cache of npm, but not that of this machine.
  let variables: NodeJS.ProcessEnv = { ...process.env, npm_config_cache: join(place, ".npm") };
  for (const [word, rest] of steps) {
    if (word === "ENV")
      variables = { ...variables, ...Object.fromEntries(rest.split(" ").map((pair) => pair.split("="))) };
    if (word === "RUN") await runOrThrow("sh", ["-c", rest], place, variables);
    const [into = "", ...sources] = rest.split(" ").toReversed();
    if (word === "COPY")
      for await (const file of glob(sources, { cwd: folder }))
        await cp(join(folder, file), join(place, into, file), { recursive: true });
  }
  variables = { ...variables, ...env };
  const [program = "", ...args] = commandOf(steps, "CMD");
  const child = spawn(program, args, { cwd: place, env: variables, stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  await Promise.race([once(child.stdout, "data"), exited]);
  return {
    url: `http://127.0.0.1:${env["PORT"]}`,
    run: ([name = "", ...rest]) => runOrThrow(name, rest, place, variables),
    async check() {
      const [name = "", ...rest] = commandOf(steps, "HEALTHCHECK");
      return (await run(name, rest, place, variables)).code;
    },
    async stop() {
      child.kill("SIGTERM");
      const [code] = (await exited) as [number | null];
      await rm(place, { recursive: true });
      return code ?? -1;
    },
  };
}
