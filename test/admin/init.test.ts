/** The command `polygate init`: the files that it writes, and what it refuses. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../../src/admin/command-line.ts";
import type { Terminal } from "../../src/admin/commands.ts";
import { DATABASES, type PackageManifest, SERVERS, type WrittenProject } from "../../src/admin/init.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = createRequire(import.meta.url)("../../package.json") as PackageManifest;
const nothing = async (): Promise<void> => {};
const servers = { demo: nothing, serve: nothing };
const terminal: Terminal = { env: {}, print: () => {}, read: async () => "", home: { manifest, root }, servers };

/** The names of all files that a project has. */
const FILES = [
  ".dockerignore",
  ".env.example",
  ".github/workflows/test.yml",
  ".gitignore",
  ".npmrc",
  "Dockerfile",
  "README.md",
  "admin.ts",
  "compose.yaml",
  "env.ts",
  "gateway.test.ts",
  "gateway.ts",
  "package.json",
  "server.ts",
  "stores.ts",
  "telemetry.ts",
  "tsconfig.json",
];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-init-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs `init` in this process, and returns what it prints. */
async function init(args: readonly string[], ask?: Terminal["ask"]): Promise<string> {
  const lines: string[] = [];
  await runCommand(["init", ...args], { ...terminal, ask, print: (line) => void lines.push(line) });
  return lines.join("\n");
}

const read = (...path: string[]): Promise<string> => readFile(join(folder, ...path), "utf8");

/** The names of all files of a folder and of its folders, sorted. */
async function filesOf(target: string): Promise<string[]> {
  const found = await readdir(target, { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => !entry.isDirectory());
  return files.map(({ parentPath, name }) => relative(target, join(parentPath, name)).replaceAll("\\", "/")).toSorted();
}

/** The contents of all files of a folder, by their names. */
async function contentsOf(name: string): Promise<Record<string, string>> {
  const files = await filesOf(join(folder, name));
  return Object.fromEntries(await Promise.all(files.map(async (file) => [file, await read(name, file)])));
}

/** Answers no question. */
const unasked = async (): Promise<string> => expect.fail("asked before a wrong choice was refused");

describe("polygate init", () => {
  it("writes into a folder that it makes, and says what comes next", async () => {
    const target = join(folder, "new", "My Gateway");
    const said = await init([target, "--yes"]);
    expect(await filesOf(target)).toEqual(FILES);
    const steps = ["npm install", "keys migrate", "keys create", "npm run dev", "curl http"];
    expect(steps.map((step) => said.indexOf(step) > 0 && said.indexOf(step))).toEqual(
      steps.map((step) => said.indexOf(step)).toSorted((one, other) => one - other),
    );
    expect(said).toContain(`cd ${JSON.stringify(target)}`);
    expect(JSON.parse(await read("new", "My Gateway", "package.json"))).toMatchObject({ name: "my-gateway" });
  });

  it("writes into the current folder, as a process of its own", async () => {
    const here = join(folder, "here");
    await mkdir(here);
    const cli = join(root, "src/cli.ts");
    const { stdout } = await promisify(execFile)(process.execPath, [cli, "init", "--yes"], { cwd: here });
    expect(await filesOf(here)).toEqual(FILES);
    expect(stdout).not.toMatch(/^ +cd /m);
  });

  it("asks for what the command line leaves open, again after a wrong answer", async () => {
    const questions: string[] = [];
    const answers = ["apache", " Bun ", ""];
    const ask = async (question: string): Promise<string> => {
      questions.push(question);
      return answers.shift() ?? "";
    };
    const asked: WrittenProject = JSON.parse(await init([join(folder, "asked"), "--json"], ask));
    expect(asked).toMatchObject({ server: "bun", database: "sqlite", overwritten: [] });
    expect(asked.written.toSorted()).toEqual(FILES.filter((file) => file !== ".npmrc"));
    const server = "Which server: express, fastify, bun? (express) ";
    expect(questions).toEqual([server, server, "Which database: sqlite, postgres? (sqlite) "]);
    await expect(init([join(folder, "half"), "--database", "postgre"], unasked)).rejects.toThrow(
      "Did you mean postgres?",
    );
    const half = await init([join(folder, "half"), "--server", "fastify", "--json"], async () => "postgres");
    expect(JSON.parse(half)).toMatchObject({ server: "fastify", database: "postgres" });
  });

  // The command `script` has other options elsewhere.
  it.skipIf(process.platform !== "linux")(
    "asks at a real terminal, and writes nothing when there is no answer",
    async () => {
      const command = `${process.execPath} ${join(root, "src/cli.ts")} init at-terminal`;
      const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], { cwd: folder });
      // The second answer is Ctrl-D.
      const answers = [["(express)", "fastify\n"] as const, ["(sqlite)", "\u0004"] as const];
      let said = "";
      child.stdout.on("data", (data: Buffer) => {
        said += data.toString();
        const [prompt, answer] = answers[0] ?? [];
        if (prompt === undefined || !said.includes(prompt)) return;
        child.stdin.write(answer);
        answers.shift();
      });
      const ended = once(child, "close").then(([code]) => Number(code));
      expect({ code: await ended, said }).toEqual({
        code: 2,
        said: expect.stringMatching(/Which server.*Which database.*There was no answer\. Nothing was changed\./s),
      });
      expect(await readdir(folder)).not.toContain("at-terminal");
    },
  );

  it.each<[what: string, args: readonly string[], message: RegExp]>([
    [
      "an open choice without a terminal",
      [],
      /^init asks for the server and the database on a terminal only\. Add --yes, or --server express\|fastify\|bun --database sqlite\|postgres\.$/,
    ],
    ["an unknown server", ["--server", "koa"], /^--server must be express, fastify or bun, not koa\.$/],
    ["an unknown database", ["--yes", "--database", "oracle"], /^--database must be sqlite or postgres, not oracle\.$/],
    [
      "a database without a template, before it misses the server",
      ["--database", "mysql"],
      /^--database must be sqlite or postgres, not mysql\. For MySQL, take sqlite, then install mysql2 in the project, /,
    ],
    ["one open choice without a terminal", ["--server", "bun"], /^init asks for the database on a terminal only\. Add/],
    [
      "an unknown option",
      ["--databse", "sqlite"],
      /^init takes no --databse\. Did you mean --database\? It takes --server, /,
    ],
    ["an option of other commands", ["--yes", "--store", "sqlite:x"], /^init takes no --store\. It takes --server, /],
    [
      "a folder without a name",
      ["", "--yes"],
      /^FOLDER must not be empty, as with a shell variable that is not set\.$/,
    ],
    [
      "two folders",
      ["one", "two", "--yes"],
      /^init does not take "two"\. Usage: polygate init \[FOLDER\] \[options\]$/,
    ],
  ])("refuses %s", async (_what, args, message) => {
    const before = await readdir(folder);
    await expect(init(args)).rejects.toThrow(message);
    expect(await readdir(folder)).toEqual(before);
  });

  it("overwrites nothing unless it is told to, and names the files", async () => {
    const target = join(folder, "mine");
    await mkdir(target);
    await writeFile(join(target, "server.ts"), "mine");
    await writeFile(join(target, "other.ts"), "other");
    await writeFile(join(folder, "far.ts"), "far");
    await symlink(join(folder, "far.ts"), join(target, "gateway.ts"));
    const before = await contentsOf("mine");
    await expect(init([target, "--yes"])).rejects.toThrow(
      `These files exist already in ${target}: server.ts, gateway.ts. Nothing was written. --force replaces them.`,
    );
    expect(await contentsOf("mine")).toEqual(before);

    expect(await init([target, "--yes", "--force"])).toContain("Replaced server.ts, gateway.ts.");
    const after = await contentsOf("mine");
    expect(Object.keys(after).toSorted()).toEqual([...FILES, "other.ts"].toSorted());
    expect(after["server.ts"]).toContain("polygate/express");
    expect([after["other.ts"], await read("far.ts")], "beside the project, and behind a link").toEqual([
      "other",
      "far",
    ]);
  });

  it("writes beside other files, and through a link to a folder", async () => {
    await mkdir(join(folder, "beside"));
    await writeFile(join(folder, "beside", "notes.txt"), "notes");
    await symlink(join(folder, "beside"), join(folder, "link"));
    await init([join(folder, "link"), "--yes"]);
    expect(Object.keys(await contentsOf("beside")).toSorted()).toEqual([...FILES, "notes.txt"].toSorted());
  });

  it("refuses a file as the folder, and a folder in the place of a file", async () => {
    await writeFile(join(folder, "file"), "");
    await expect(init([join(folder, "file"), "--yes", "--force"])).rejects.toThrow("is a file, not a folder.");
    await mkdir(join(folder, "blocked", "README.md"), { recursive: true });
    await expect(init([join(folder, "blocked"), "--yes", "--force"])).rejects.toThrow(
      "README.md is a folder. Nothing was written.",
    );
    expect(await readdir(join(folder, "blocked"))).toEqual(["README.md"]);
  });

  it.each(["a file", "a link out of the folder"])("refuses %s in the place of a folder", async (what) => {
    const target = join(folder, "above", what);
    await mkdir(target, { recursive: true });
    if (what === "a file") await writeFile(join(target, ".github"), "");
    else await symlink(folder, join(target, ".github"));
    await expect(init([target, "--yes", "--force"])).rejects.toThrow(".github is no folder. Nothing was written.");
    expect(await readdir(target)).toEqual([".github"]);
  });

  it.each(["polygate", "Express", "--"])("gives the project in the folder %s a name that npm takes", async (name) => {
    await init([join(folder, "names", name), "--yes"]);
    const { name: chosen } = JSON.parse(await read("names", name, "package.json")) as { name: string };
    expect(chosen).toBe({ polygate: "polygate-gateway", Express: "express-gateway" }[name] ?? "gateway");
  });
});

describe.each(SERVERS.flatMap((server) => DATABASES.map((database) => [server, database] as const)))(
  "the project for %s and %s",
  (server, database) => {
    const name = `${server}-${database}`;
    let files: Record<string, string>;

    beforeAll(async () => {
      await init([join(folder, name), "--server", server, "--database", database]);
      files = await contentsOf(name);
    });

    const text = (file: string): string => files[file] ?? "";

    /** The variables that the code reads; PGPASSWORD is read by `pg`, and POLYGATE_CURRENCY by the command. */
    const variables = (): string[] => {
      const code = ["server.ts", "gateway.ts", "admin.ts", "env.ts", "stores.ts", "telemetry.ts"].map(text).join("\n");
      const taken = Array.from(code.matchAll(/const \{([^}]*)\} = process\.env;/g), ([, names = ""]) => names);
      expect(taken).toHaveLength(code.split("process.env").length - 1);
      const names = new Set(taken.flatMap((names) => names.match(/[A-Z_]{2,}/g) ?? []));
      return [...names, "POLYGATE_CURRENCY", ...(database === "postgres" ? ["PGPASSWORD"] : [])].toSorted();
    };

    const assignments = (): [name: string, value: string][] =>
      Array.from(text(".env.example").matchAll(/^([A-Z_]+)=(.*)$/gm), ([, name = "", value = ""]) => [name, value]);

    it("has an example of each variable that the code reads, without a secret", () => {
      expect(
        assignments()
          .map(([name]) => name)
          .toSorted(),
      ).toEqual(variables());
      const secrets = assignments().filter(([name]) => /KEY|PASSWORD/.test(name));
      expect(secrets.length).toBeGreaterThan(1);
      expect(secrets.filter(([, value]) => value !== "")).toEqual([]);
      // Models with names are in the list of models and in the metrics.
      expect(assignments()).toContainEqual(["MODELS", expect.stringMatching(/^[\w.-]+(?:,[\w.-]+)*$/)]);
    });

    it("has a compose file that gives the same variables from .env", async () => {
      // Bun reads YAML.
      const script = `console.log(JSON.stringify(Bun.YAML.parse(await Bun.file("compose.yaml").text())))`;
      const bun = join(root, "node_modules/.bin/bun");
      const { stdout } = await promisify(execFile)(bun, ["--eval", script], { cwd: join(folder, name) });
      const { services, volumes } = JSON.parse(stdout) as {
        services: Record<string, { environment: Record<string, string>; volumes?: string[] }>;
        volumes: object;
      };
      const given = services["gateway"]?.environment ?? {};
      // The image sets the address of the server.
      expect([...Object.keys(given), "HOST", "PORT"].toSorted()).toEqual(variables());
      expect(text("Dockerfile")).toMatch(/^ENV .*HOST=0\.0\.0\.0 PORT=3000$/m);
      const { POLYGATE_STORE: store, ...others } = given;
      for (const [name, value] of Object.entries(others)) expect(value).toMatch(new RegExp(`^\\$\\{${name}:[-?]`));
      expect(store).toMatch(database === "postgres" ? /^postgres:.*@database\// : /^sqlite:\/data\//);
      expect(Object.keys(services)).toEqual(database === "postgres" ? ["gateway", "database"] : ["gateway"]);
      const mounted = Object.values(services).flatMap(({ volumes = [] }) =>
        volumes.map((mount) => mount.split(":")[0]),
      );
      expect(mounted).toEqual(Object.keys(volumes));
    });

    it("has a Dockerfile that copies what is there, and starts as the script does", () => {
      const lines = text("Dockerfile").split("\n");
      const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
      const [command = ""] = lines.flatMap((line) => /^CMD (.*)$/.exec(line)?.[1] ?? []);
      expect((JSON.parse(command) as string[]).join(" ")).toBe(
        scripts["start"]?.replace("--env-file-if-exists=.env ", ""),
      );
      const copied = lines.flatMap((line) => /^COPY (.*) \.\/$/.exec(line)?.[1]?.split(" ") ?? []);
      const lock = server === "bun" ? "bun.lock" : "package-lock.json";
      expect(copied).toEqual(["package.json", lock, "*.ts"]);
      expect(globSync(copied, { cwd: join(folder, name) }).toSorted()).toEqual(
        FILES.filter((file) => file.endsWith(".ts") || file === "package.json"),
      );
      // Whatever is copied must reach the build.
      expect(text(".dockerignore").split("\n")).toEqual(expect.arrayContaining(copied.map((file) => `!${file}`)));
      expect(lines).toContain(server === "bun" ? "USER bun" : "USER node");
      expect(text("Dockerfile")).toMatch(/^HEALTHCHECK CMD .*\/healthz/m);
      expect(text("Dockerfile").includes("/data")).toBe(database === "sqlite");
    });

    it("needs the packages that its code imports, in the versions of the tests", () => {
      const { dependencies, devDependencies } = JSON.parse(text("package.json")) as Record<
        "dependencies" | "devDependencies",
        Record<string, string>
      >;
      const code = Object.keys(files)
        .filter((file) => file.endsWith(".ts"))
        .map(text)
        .join("\n");
      const imported = Array.from(code.matchAll(/ from "((?:@[\w-]+\/)?[\w-]+)[^:"]*"/g), ([, name = ""]) => name);
      // The API is a peer of `polygate/telemetry` and of the SDK. The others are peers of `polygate/stores`.
      const peers = [
        "@opentelemetry/api",
        "kysely",
        "rate-limiter-flexible",
        ...(database === "postgres" ? ["pg"] : []),
      ];
      const needed = new Set([...imported.filter((name) => name !== "node"), ...peers]);
      expect(Object.keys(dependencies)).toEqual([...needed].toSorted());
      for (const [name, range] of Object.entries({ ...dependencies, ...devDependencies }))
        expect([name, range]).toEqual([
          name,
          `^${name === "polygate" ? manifest.version : manifest.devDependencies[name]}`,
        ]);
    });

    it("has a README that names its own scripts and files", () => {
      const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
      const readme = text("README.md");
      const runner = server === "bun" ? "bun" : "npm";
      const run = Array.from(readme.matchAll(/(\w+) run (\w+)/g), ([, by, script = ""]) => [by, script in scripts]);
      expect(run.length).toBeGreaterThan(4);
      expect(run.filter(([by, isThere]) => by !== runner || !isThere)).toEqual([]);
      const named = Array.from(readme.matchAll(/`([\w.]+\.ts)`/g), ([, file = ""]) => file);
      expect(new Set(named)).toEqual(new Set(FILES.filter((file) => file.endsWith(".ts"))));
      expect(readme).not.toMatch(server === "bun" ? /\bnp[mx]\b(?!js)/ : /\bbunx?\b/);
    });

    it("has a workflow that runs its own scripts, and an image without tests", () => {
      const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
      expect(Object.keys(scripts)).toEqual(expect.arrayContaining(["check", "test"]));
      const runner = server === "bun" ? "bun" : "npm";
      const steps = Array.from(text(".github/workflows/test.yml").matchAll(/ run: (.*)$/gm), ([, step]) => step);
      expect(steps.slice(1)).toEqual([`${runner} run check`, `${runner} test`]);
      expect(text(".github/workflows/test.yml")).not.toContain("secrets");
      expect(text(".dockerignore").trimEnd()).toMatch(/\n\*\.test\.ts$/);
    });

    it("begins with the packages, the database and the first key", async () => {
      const said = await init([join(folder, "steps", name), "--server", server, "--database", database]);
      const runner = server === "bun" ? "bun" : "npm";
      expect(said).toContain(`  ${runner} install\n`);
      expect(said).toContain(`  ${runner} run polygate -- keys create`);
      const steps = text("README.md").match(/^\d\. .*$/gm) ?? [];
      expect(steps.map((step) => Number(step[0]))).toEqual(steps.map((_, at) => at + 1));
      const [start, migrate] = ["docker compose up -d database", "keys migrate"].map((words) =>
        steps.findIndex((step) => step.includes(words)),
      );
      expect([said.includes("docker compose up -d database"), start]).toEqual(
        database === "postgres" ? [true, Number(migrate) - 1] : [false, -1],
      );
    });

    it("keeps secrets and databases out of git", () => {
      expect(text(".gitignore").split("\n")).toEqual(expect.arrayContaining([".env", "*.db", "node_modules/"]));
    });
  },
);

it("stays a page to read", () => {
  const lines = ["gateway.ts", "server.ts"].map(
    (file) => readFileSync(join(root, "playground/template", file), "utf8").split("\n").length - 1,
  );
  expect(lines.reduce((one, other) => one + other)).toBeLessThanOrEqual(105);
});
