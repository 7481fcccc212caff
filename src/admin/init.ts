/** The command `polygate init`: writes a gateway of one's own into a folder, from the template in the package. */

import { lstat, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { UsageError } from "../stores/open/connection.ts";

export const SERVERS = ["express", "fastify", "bun"] as const;
export const DATABASES = ["sqlite", "postgres"] as const;

type ServerKind = (typeof SERVERS)[number];
type DatabaseKind = (typeof DATABASES)[number];

/** The parts of the package's own manifest that a new project needs. */
export interface PackageManifest {
  readonly version: string;
  readonly engines: { readonly node: string };
  /** The versions that the package is tested with. */
  readonly devDependencies: Readonly<Record<string, string>>;
}

export interface NewProject {
  /** The folder, which is made if it does not exist. */
  readonly folder: string;
  readonly server: ServerKind;
  readonly database: DatabaseKind;
  /** Replaces files that exist. */
  readonly force: boolean;
}

/** The written files, by their names in the folder. */
export interface WrittenProject extends Omit<NewProject, "force"> {
  readonly written: readonly string[];
  /** The files among them that existed before. */
  readonly overwritten: readonly string[];
}

/** The package with the template. */
export interface TemplatePackage {
  readonly manifest: PackageManifest;
  readonly root: string;
}

/** The files of each project, by the names in the template. `_` stands for a name that would have an effect there. */
function sourcesOf({ server, database }: NewProject): ReadonlyMap<string, string> {
  const isBun = server === "bun";
  const isPostgres = database === "postgres";
  return new Map([
    ["server.ts", server === "express" ? "server.ts" : `server.${server}.ts`],
    ["gateway.ts", "gateway.ts"],
    ["env.ts", "env.ts"],
    ["admin.ts", "admin.ts"],
    ["stores.ts", "stores.ts"],
    ["telemetry.ts", "telemetry.ts"],
    ["gateway.test.ts", "gateway.test.ts"],
    [".github/workflows/test.yml", isBun ? "_test.bun.yml" : "_test.yml"],
    ["tsconfig.json", "_tsconfig.json"],
    [".env.example", isPostgres ? "_env.postgres.example" : "_env.example"],
    [".gitignore", "_gitignore"],
    [".dockerignore", "_dockerignore"],
    ["Dockerfile", isBun ? "Dockerfile.bun" : "Dockerfile"],
    ["compose.yaml", isPostgres ? "compose.postgres.yaml" : "compose.yaml"],
    ["README.md", "README.md"],
    ...(isBun ? [] : [[".npmrc", "_npmrc"] as const]),
  ]);
}

type Packages = Readonly<Record<"all" | ServerKind | DatabaseKind, readonly string[]>>;

/** The packages of every project, and of each choice. */
const PACKAGES: Packages = {
  all: [
    "@opentelemetry/api",
    "@opentelemetry/exporter-prometheus",
    "@opentelemetry/exporter-trace-otlp-http",
    "@opentelemetry/resources",
    "@opentelemetry/sdk-metrics",
    "@opentelemetry/sdk-trace",
    "kysely",
    "polygate",
    "rate-limiter-flexible",
  ],
  express: ["express"],
  fastify: ["fastify"],
  bun: [],
  sqlite: [],
  postgres: ["pg"],
};

const DEV_PACKAGES: Packages = {
  all: ["typescript"],
  express: ["@types/express", "@types/node"],
  fastify: ["@types/node"],
  bun: ["@types/bun"],
  sqlite: [],
  postgres: [],
};

function packageJson(project: NewProject, { version, engines, devDependencies: tested }: PackageManifest): string {
  const { server, database } = project;
  const rangesOf = ({ all, [server]: ofServer, [database]: ofDatabase }: Packages): Record<string, string> => {
    const names = [...all, ...ofServer, ...ofDatabase].toSorted();
    return Object.fromEntries(names.map((name) => [name, `^${name === "polygate" ? version : tested[name]}`]));
  };
  const dependencies = rangesOf(PACKAGES);
  const runWithEnv = server === "bun" ? "bun" : "node --env-file-if-exists=.env";
  const manifest = {
    name: nameOf(project.folder, Object.keys(dependencies)),
    version: "0.0.0",
    private: true,
    type: "module",
    scripts: {
      start: `${runWithEnv} server.ts`,
      dev: `${runWithEnv} --watch server.ts`,
      check: "tsc --noEmit",
      test: server === "bun" ? "bun test" : 'node --test "*.test.ts"',
      polygate: `${runWithEnv} node_modules/polygate/dist/server/cli.js`,
    },
    dependencies,
    devDependencies: rangesOf(DEV_PACKAGES),
    ...(server !== "bun" && { engines }),
  };
  return `${JSON.stringify(manifest, undefined, 2)}\n`;
}

/** Makes a package name from the name of a folder. npm installs no package inside a package of the same name. */
function nameOf(folder: string, dependencies: readonly string[]): string {
  const words = basename(resolve(folder))
    .toLowerCase()
    .match(/[a-z\d]+/g) ?? ["gateway"];
  const name = words.join("-");
  return dependencies.includes(name) ? `${name}-gateway` : name;
}

/** Adapts a file of the template to the choices. */
function adapted(name: string, source: string, { server, database }: NewProject): string {
  const text = name === "README.md" ? stepsFor(database, source) : source;
  if (name === "Dockerfile" && database === "postgres") return text.replaceAll(/^# The database .*\nRUN .*\n/gm, "");
  if (server !== "bun" || !/\.(?:md|yaml|example)$/.test(name)) return text;
  return text.replaceAll(/\bnpm (?=install|run)/g, "bun ");
}

/** Leaves out the step that starts a server of the database where the database is a file, and numbers the steps. */
function stepsFor(database: DatabaseKind, text: string): string {
  let count = 0;
  const steps = database === "postgres" ? text : text.replace(/^\d\. `docker compose up -d database`.*\n/m, "");
  return steps.replaceAll(/^\d(?=\. )/gm, () => String(++count));
}

/**
 * Writes a project. Rejects with a UsageError, and changes nothing, when the folder is a file, when a file of the project exists
 * (unless `force` is set), and when a folder is in the place of a file, or anything else in the place of a folder.
 */
export async function writeProject(project: NewProject, { manifest, root }: TemplatePackage): Promise<WrittenProject> {
  const { folder, server, database, force } = project;
  const texts = new Map([["package.json", packageJson(project, manifest)]]);
  for (const [name, source] of sourcesOf(project))
    texts.set(name, adapted(name, await readFile(join(root, "playground/template", source), "utf8"), project));

  // A link to a folder is a folder.
  if ((await kindOf(folder, stat)) === "file") throw new UsageError(`${folder} is a file, not a folder.`);
  const overwritten: string[] = [];
  for (const name of texts.keys()) {
    for (let above = dirname(name); above !== "."; above = dirname(above))
      if ((await kindOf(join(folder, above))) === "file")
        throw new UsageError(`${join(folder, above)} is no folder. Nothing was written.`);
    const kind = await kindOf(join(folder, name));
    if (kind === "folder") throw new UsageError(`${join(folder, name)} is a folder. Nothing was written.`);
    if (kind === "file") overwritten.push(name);
  }
  if (overwritten.length > 0 && !force)
    throw new UsageError(
      `These files exist already in ${folder}: ${overwritten.join(", ")}. Nothing was written. --force replaces them.`,
    );

  await mkdir(folder, { recursive: true });
  for (const [name, text] of texts) {
    const path = join(folder, name);
    // A link is replaced, and not followed out of the folder.
    if (force) await rm(path, { force: true });
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: "wx" });
  }
  return { folder, server, database, written: [...texts.keys()], overwritten };
}

async function kindOf(path: string, look: typeof lstat = lstat): Promise<"file" | "folder" | undefined> {
  try {
    return (await look(path)).isDirectory() ? "folder" : "file";
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** Says what was written, and the way to the first answer. */
export function nextSteps({ folder, server, database, written, overwritten }: WrittenProject): string {
  const npm = server === "bun" ? "bun" : "npm";
  const into =
    resolve(folder) === process.cwd() ? [] : [`  cd ${/^[\w./-]+$/.test(folder) ? folder : JSON.stringify(folder)}`];
  return [
    `Wrote ${written.join(", ")}.`,
    ...(overwritten.length > 0 ? [`Replaced ${overwritten.join(", ")}.`] : []),
    "",
    "Next:",
    ...into,
    `  ${npm} install`,
    "  cp .env.example .env           # Fill it in: at least the upstream that answers, and its models.",
    "  # Give each of these models its price in gateway.ts.",
    ...(database === "postgres" ? ["  docker compose up -d database  # Or name your own in .env."] : []),
    `  ${npm} run polygate -- keys migrate`,
    `  ${npm} run polygate -- keys create --id team-a --granted 5`,
    `  ${npm} run dev`,
    "",
    "Then call it with the secret of the key, and a model of your upstream:",
    "  curl http://127.0.0.1:3000/ai/v1/chat/completions \\",
    '    -H "authorization: Bearer sk-…" -H "content-type: application/json" \\',
    `    -d '{"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}'`,
    "",
    "README.md says more.",
  ].join("\n");
}
