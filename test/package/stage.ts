/** The installed package, for the suites that use it as a host does. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "tsdown";

export interface PackageStage {
  /** An empty project with the package, its dependencies and Node's types. */
  readonly project: string;
  readonly tarball: string;
}

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));
/** The oldest supported Node. */
export const OLDEST_NODE: string = join(ROOT, "node_modules", "node-22", "bin", "node");

export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs a program, and returns its exit code and output. Never rejects. */
export const run = (
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Ended> =>
  promisify(execFile)(command, args, { cwd, env }).then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    ({ code, stdout = "", stderr = "", message }: Error & { code?: number; stdout?: string; stderr?: string }) => ({
      code: Number(code),
      output: stdout + stderr || message,
    }),
  );

/** Runs a program and returns its output. Rejects with the output when the program fails. */
export async function runOrThrow(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const { code, output } = await run(command, args, cwd, env);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} failed with ${code}.\n${output}`);
  return output;
}

/** Builds the package, packs it into a folder, and returns the path of the tarball. */
export async function packInto(folder: string): Promise<string> {
  const checkout = join(folder, "checkout");
  // Build in a copy: a build empties `dist`, which may be in use in this checkout.
  const leftOut = new Set(["node_modules", ".git", "dist"]);
  await cp(ROOT, checkout, { recursive: true, filter: (source) => !leftOut.has(basename(source)) });
  await symlink(join(ROOT, "node_modules"), join(checkout, "node_modules"));
  await runOrThrow("npm", ["run", "build"], checkout);
  await runOrThrow("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], checkout);
  return join(folder, (await readdir(folder)).find((name) => name.endsWith(".tgz")) ?? "");
}

/** Returns the entries that a host may import, from the `exports` of package.json. */
export function entriesOf(manifest: string): readonly string[] {
  const { exports } = JSON.parse(manifest) as { exports: Readonly<Record<string, unknown>> };
  const names = Object.keys(exports).filter((name) => name !== "./package.json");
  return names.map((name) => `polygate${name.slice(1)}`);
}

/** Returns a Worker and everything that it uses as one minified module. The conditions are those of Wrangler. */
export async function bundledWorker(project: string, name: string, source: string): Promise<string> {
  const [entry, outDir] = [join(project, `${name}.js`), join(project, "bundles")];
  await writeFile(entry, source);
  await build({
    config: false,
    cwd: project,
    entry: { [name]: entry },
    outDir,
    clean: false,
    dts: false,
    minify: true,
    platform: "neutral",
    deps: { alwaysBundle: [/./], onlyBundle: false },
    inputOptions: {
      resolve: {
        conditionNames: ["workerd", "worker", "browser", "import"],
        mainFields: ["browser", "module", "main"],
      },
    },
    outputOptions: { codeSplitting: false },
    logLevel: "error",
    failOnWarn: true,
    // Warns where the machine is slow.
    checks: { bundlerTimings: false },
  });
  return readFile(join(outDir, `${name}.js`), "utf8");
}

/** Links the installed packages of this checkout into a project. */
export async function linkPackages(project: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const link = join(project, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(ROOT, "node_modules", name), link);
  }
}

/** Makes a project beside the stage's that has the package and the packages that it depends on, and no others. Returns its folder. */
export async function bareProject({ project }: PackageStage, name: string): Promise<string> {
  const bare = join(dirname(project), name);
  const installed = join(bare, "node_modules", "polygate");
  // Copy and do not link: Node would look for packages beside the target of a link.
  await cp(join(project, "node_modules", "polygate"), installed, { recursive: true });
  const { bin, dependencies } = JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as {
    bin: { polygate: string };
    dependencies: Readonly<Record<string, string>>;
  };
  await linkPackages(bare, Object.keys(dependencies));
  // As npm installs a command.
  await mkdir(join(bare, "node_modules", ".bin"));
  await symlink(join("..", "polygate", bin.polygate), join(bare, "node_modules", ".bin", "polygate"));
  await chmod(join(installed, bin.polygate), 0o755);
  return bare;
}

/** Returns a port that was free a moment ago. */
export async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return String(port);
}
