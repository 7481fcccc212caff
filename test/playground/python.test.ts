/** Python in the playground: what code prints, how it ends, what it may not do, and what is left of it. Pyodide is real. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { pythonRunner } from "../../playground/python/runner.ts";
import type { CodeResult, CodeRunner } from "../../src/index.ts";

const STUCK_MS = 60_000;
const MIB = 1024 * 1024;
const RUNNER = new URL("../../playground/python/runner.ts", import.meta.url).href;
const [WORKER = "", HARNESS = ""] = ["worker.ts", "harness.py"].map((name) => fileURLToPath(new URL(name, RUNNER)));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PYODIDE = join(ROOT, "node_modules", "pyodide");
const FOREVER = "print('begun', flush=True)\nwhile True: pass";

const shared = pythonRunner();
const folder = realpathSync(mkdtempSync(join(tmpdir(), "polygate-python-")));
afterAll(async () => {
  await shared[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const run = (
  code: string,
  { runner = shared, signal = new AbortController().signal, deadlineMs = STUCK_MS }: Partial<Run> = {},
): Promise<CodeResult> => runner.run({ language: "python", code }, { keyId: "one", signal, deadlineMs });

interface Run {
  readonly runner: CodeRunner;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

/** The address of a module beside a package `pyodide` whose loader is this. */
function besideLoader(name: string, loader: string): string {
  const home = join(folder, name, "node_modules", "pyodide");
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), `{"name": "pyodide"}`);
  writeFileSync(join(home, "pyodide.mjs"), loader);
  return pathToFileURL(join(folder, name, "main.js")).href;
}
const NEVER_LOADS = "export const loadPyodide = () => new Promise(() => setInterval(() => {}, 1000));";

describe("Python", { timeout: STUCK_MS }, () => {
  it("prints to standard output and error in order, and nothing that it does not print", async () => {
    const code = "import sys\nprint('a', end='')\nprint('b', file=sys.stderr)\nprint('c é 🐍')\n1 + 1";
    expect(await run(code)).toEqual({ outcome: "ok", output: "ab\nc é 🐍\n" });
  });

  it("shows an exception as a short traceback of its own code", async () => {
    const { outcome, output } = await run("def f():\n  return 1 / 0\nprint('first')\nf()");
    expect({ outcome, output }).toEqual({
      outcome: "failed",
      output: expect.stringMatching(
        /^first\nTraceback .*\n {2}File "main.py", line 4, in <module>[^]*\nZeroDivisionError: .*\n$/,
      ),
    });
    expect(output.split("\n").length).toBeLessThan(12);
  });

  it.each([
    ["x = [", "failed", "SyntaxError"],
    ["import sys\nsys.exit()", "ok", ""],
    ["import sys\nsys.exit(2)", "failed", ""],
    ["import sys\ntry: input()\nexcept EOFError: sys.exit('no input')", "failed", "no input"],
    ["import os\nos._exit(0)", "ok", ""],
    ["import os\nos._exit(1)", "failed", ""],
    ["import os\nos.abort()", "failed", "Python crashed."],
    ["def f(): f()\nf()", "failed", "RecursionError"],
    ["import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", "failed", "main.py"],
  ])("ends %j as %s", async (code, outcome, part) => {
    expect(await run(code)).toEqual({ outcome, output: expect.stringContaining(part) });
  });

  it("has its standard library, asyncio and files of its own", async () => {
    const code = [
      "import asyncio, decimal, hashlib, json, random, statistics, time, uuid",
      "async def main():",
      "  await asyncio.gather(asyncio.sleep(0.01), asyncio.sleep(0.01))",
      "  return uuid.uuid4().version + random.randint(0, 0)",
      "open('kept.txt', 'w').write('kept')",
      "print(asyncio.run(main()), open('kept.txt').read(), __name__)",
    ].join("\n");
    expect(await run(code)).toEqual({ outcome: "ok", output: "4 kept __main__\n" });
  });

  it("cuts output that is too long, and says so", async () => {
    await using runner = pythonRunner({ maxOutputLength: 1_000 });
    const { outcome, output } = await run("for i in range(1_000): print('🐍' * 100)", { runner });
    expect(outcome).toBe("ok");
    expect(output).toMatch(/^(?:(?:🐍){100}\n)+(?:🐍)*\n\[The output was cut here\.\]\n$/u);
    expect(output.length).toBeLessThan(1_100);
  });

  it("hands over long output whole", async () => {
    await using runner = pythonRunner({ maxOutputLength: 2_000_000 });
    const { output } = await run("print('🐍' * 250_000, end='')", { runner });
    expect(output).toBe("🐍".repeat(250_000));
  });

  it("starts fresh in every run, and draws other random numbers", async () => {
    const code = `
import builtins, os, random, uuid
print(hasattr(builtins, "left"), os.path.exists("left.txt"))
builtins.left = 1
open("left.txt", "w").write("left")
print(random.random(), random.SystemRandom().random(), uuid.uuid4())`;
    const outputs = [await run(code), await run(code)].map(({ output }) => output.split("\n", 2));
    expect(outputs.map(([left]) => left)).toEqual(["False False", "False False"]);
    expect(new Set(outputs.flatMap(([, numbers = ""]) => numbers.split(" "))).size).toBe(6);
  });
});

describe("the end of a run", { timeout: STUCK_MS }, () => {
  it("comes with the deadline, and the output so far", async () => {
    // A slow machine needs longer until the code begins.
    let ended: CodeResult | undefined;
    for (let deadlineMs = 1_000; !ended?.output; deadlineMs *= 2) {
      ended = await run(FOREVER, { deadlineMs });
      expect(ended.outcome).toBe("deadline-exceeded");
    }
    expect(ended.output).toBe("begun\n");
  });

  it("comes with the deadline while Python loads, or waits for its turn", async () => {
    await using runner = pythonRunner({ from: besideLoader("slow", NEVER_LOADS), maxConcurrent: 1 });
    const late = { outcome: "deadline-exceeded", output: "" };
    const runs = [run("", { runner, deadlineMs: 500 }), run("", { runner, deadlineMs: 100 })];
    expect(await Promise.all(runs)).toEqual([late, late]);
  });

  it("comes with the signal, whose reason the run rejects with", async () => {
    await using runner = pythonRunner({ from: besideLoader("slow", NEVER_LOADS), maxConcurrent: 1 });
    const [loading, waiting] = [new AbortController(), new AbortController()];
    const runs = [run("", { runner, signal: loading.signal }), run("", { runner, signal: waiting.signal })];
    const reasons = Promise.all(runs.map((run) => expect(run).rejects.toThrow("gone")));
    waiting.abort(new Error("gone"));
    loading.abort(new Error("gone"));
    await reasons;
    const aborted = AbortSignal.abort(new Error("gone before"));
    await expect(run("", { runner, signal: aborted })).rejects.toThrow("gone before");
  });

  it("comes when the runner is closed", async () => {
    const runner = pythonRunner();
    const [ended] = await Promise.allSettled([run(FOREVER, { runner }), runner[Symbol.asyncDispose]()]);
    expect(ended).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("closed") } });
    await expect(run("", { runner })).rejects.toThrow("closed");
  });

  it("leaves those that follow, more than may go on at a time, each their turn", async () => {
    const runs = [1, 2, 3, 4].map((number) => run(`print(${number})`));
    expect((await Promise.all(runs)).map(({ output }) => output)).toEqual(["1\n", "2\n", "3\n", "4\n"]);
  });
});

describe.runIf(process.platform === "linux")("memory", { timeout: STUCK_MS }, () => {
  // Little, because it takes long to fill much.
  const runner = pythonRunner({ maxMemoryBytes: 128 * MIB });
  afterAll(() => runner[Symbol.asyncDispose]());

  it("has an end that nobody has told", async () => {
    const output = expect.stringContaining("MemoryError") as string;
    expect(await run("kept = bytearray(2_000_000_000)")).toEqual({ outcome: "failed", output });
  });

  it.each([
    ["bytes in pieces", "kept = []\nwhile True: kept.append(bytearray(10_000_000))"],
    ["files", "file, piece = open('/tmp/big', 'wb'), bytes(50_000_000)\nwhile True: file.write(piece)"],
    ["objects", "kept = []\nwhile True: kept.append({1: []})"],
  ])("has an end for %s", async (_, code) => {
    expect(await run(code, { runner })).toEqual({ outcome: "failed", output: expect.stringContaining("MemoryError") });
  });

  it("that Python may hold can be told, and running out of it be caught", async () => {
    const code = "try: bytearray(150_000_000)\nexcept MemoryError: print('caught')\nprint(len(bytearray(20_000_000)))";
    expect(await run(code, { runner })).toEqual({ outcome: "ok", output: "caught\n20000000\n" });
  });
});

/**
 * Undoes what can be undone from Python, and so finds its way to JavaScript: `Function` is its constructor, `pyodide` the
 * library's own object, as the garbage collector knows it.
 */
const REACH = `
import sys, gc
for name in [name for name, module in sys.modules.items() if module is None]: del sys.modules[name]
import _pyodide_core
array = _pyodide_core.to_js([1])
Function = array.constructor.constructor
seen, proxies, waiting = set(), [], gc.get_objects()
while waiting:
  found = waiting.pop()
  if id(found) in seen: continue
  seen.add(id(found))
  if not isinstance(found, type) and any(base.__name__ == 'JsProxy' for base in type(found).__mro__): proxies.append(found)
  else: waiting.extend(gc.get_referents(found))
pyodide = next(proxy for proxy in proxies if hasattr(proxy, '_module') and hasattr(proxy, 'mountNodeFS'))
def attempt(action):
  try: print('reached', action())
  except BaseException as error: print('stopped', error)
`;

describe("a way out", { timeout: STUCK_MS }, () => {
  it("is not a module that leads there, nor a file of this machine, nor the network", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    let connections = 0;
    server.on("connection", () => (connections += 1));
    const { port } = server.address() as AddressInfo;
    const names = ["js", "pyodide_js", "pyodide.code", "pyodide.ffi", "_pyodide_core", "ctypes"];
    const imports = [...names.map((name) => `import ${name}`), "from pyodide.code import run_js"];
    const code = `
for line in ${JSON.stringify(imports)}:
  try: exec(line)
  except ModuleNotFoundError: print("no", line)
print([n for n, m in __import__('sys').modules.items() if m and n.split('.')[0] in ('js', 'pyodide', 'pyodide_js', '_pyodide', '_pyodide_core')])
import os
print(sorted(os.listdir('/')), os.path.exists(${JSON.stringify(ROOT)}), os.path.exists('/etc/passwd'))
import socket, urllib.request
for attempt in (lambda: socket.create_connection(('127.0.0.1', ${port}), 1).send(b'x'), lambda: urllib.request.urlopen('http://127.0.0.1:${port}')):
  try: print('reached', attempt())
  except OSError as error: print('refused')`;
    const told = [
      ...imports.map((line) => `no ${line}`),
      "[]",
      "['dev', 'home', 'lib', 'proc', 'tmp'] False False",
      "refused",
      "refused",
    ];
    expect(await run(code)).toEqual({ outcome: "ok", output: told.map((line) => `${line}\n`).join("") });
    expect(connections).toBe(0);
    server.close();
  });

  it("is not JavaScript that is found all the same, and the output names nothing of this machine", async () => {
    const code = `import os, sys, sysconfig, platform, traceback
print(os.environ, sys.argv, sys.orig_argv, sys.executable, sys.path, sysconfig.get_paths(), platform.uname(), os.getcwd())
${REACH}
attempt(lambda: Function('return process')())
try: array.at.call(None)
except BaseException as error: print(getattr(error, 'stack', ''), traceback.format_exc())
print("Pyodide's own")
os.makedirs('/mnt/etc'); os.makedirs('/mnt/own')
attempt(lambda: pyodide.mountNodeFS('/mnt/etc', '/etc') or open('/mnt/etc/passwd').read())
attempt(lambda: pyodide._module.require('node:fs'))
print([value for value in pyodide._api.config.object_values() if 'node_modules' in str(value)])
pyodide.mountNodeFS('/mnt/own', ${JSON.stringify(PYODIDE)})
print(os.path.exists('/mnt/own/package.json'))
try:
  with open('/mnt/own/written', 'w') as file: file.write('x')
finally: os.abort()`;
    const { output } = await run(code);
    const [own = "", ofPyodide] = output.split("Pyodide's own\n");
    // It makes no code of strings.
    expect(own).toMatch(/^environ.*\nstopped [^]*EvalError: Code generation from strings disallowed/);
    expect(ofPyodide).toMatch(/^stopped .*[^]*'\/etc' does not exist[^]*\nstopped require\n\[\]\nTrue\n/);
    expect(output).not.toContain("reached");
    expect(existsSync(join(PYODIDE, "written"))).toBe(false);
    for (const secret of [ROOT, dirname(process.execPath), "node_modules", "file://"])
      expect(output).not.toContain(secret);
  });
});

describe("the package", { timeout: STUCK_MS }, () => {
  it("may be reached by a symbolic link, and have a broken snapshot beside it, which is made anew", async () => {
    mkdirSync(join(folder, "linked", "node_modules"), { recursive: true });
    symlinkSync(PYODIDE, join(folder, "linked", "node_modules", "pyodide"));
    await using linked = pythonRunner({ from: pathToFileURL(join(folder, "linked", "main.js")).href });
    expect(await run("print(1)", { runner: linked })).toEqual({ outcome: "ok", output: "1\n" });

    const home = join(folder, "own", "node_modules");
    cpSync(PYODIDE, join(home, "pyodide"), { recursive: true });
    // Of one package and one worker, they have one name wherever they are.
    const kept = readdirSync(join(PYODIDE, "..", ".cache", "polygate"));
    mkdirSync(join(home, ".cache", "polygate"), { recursive: true });
    for (const name of kept) writeFileSync(join(home, ".cache", "polygate", name), "broken");
    await using runner = pythonRunner({ from: pathToFileURL(join(folder, "own", "main.js")).href });
    await expect(run("print(2)", { runner })).rejects.toThrow("Python could not be loaded.");
    expect(await run("print(3)", { runner })).toEqual({ outcome: "ok", output: "3\n" });
  });

  it("is asked for where it is missing", async () => {
    await using runner = pythonRunner({ from: pathToFileURL(join(folder, "main.js")).href });
    await expect(run("", { runner })).rejects.toThrow(/npm install pyodide@\d/);
  });

  it("that fails to load says why in the cause", async () => {
    await using runner = pythonRunner({ from: besideLoader("broken", "throw new Error('no luck');") });
    await expect(run("", { runner })).rejects.toMatchObject({
      message: "Python could not be loaded.",
      cause: { message: expect.stringContaining("no luck") },
    });
  });
});

const BIN = join(ROOT, "node_modules", ".bin");

describe.each([
  ["node", []],
  ["bun", []],
  ["deno", ["run", "--allow-all"]],
])("in %s", (runtime, args) => {
  const isMissing = !existsSync(join(BIN, runtime));
  /** Runs a file to its end. */
  async function play(file: string, ...parameters: string[]): Promise<{ code: unknown; said: string }> {
    const env = { ...process.env, PATH: BIN };
    const child = spawn(join(BIN, runtime), [...args, file, ...parameters], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (said += data.toString()));
    const [code] = (await once(child, "close", { signal: AbortSignal.timeout(STUCK_MS) })) as [unknown];
    return { code, said };
  }

  it.skipIf(isMissing)("code runs, and the spare process keeps no program alive", { timeout: STUCK_MS }, async () => {
    const program = join(folder, `${runtime}.ts`);
    const source = `
      import { pythonRunner } from ${JSON.stringify(RUNNER)};
      const call = { signal: new AbortController().signal, deadlineMs: ${STUCK_MS} };
      console.log(JSON.stringify(await pythonRunner().run({ language: "python", code: "print(1)" }, call)));`;
    writeFileSync(program, source);
    expect(await play(program)).toEqual({ code: 0, said: '{"outcome":"ok","output":"1\\n"}\n' });
  });

  it.skipIf(isMissing)("no code runs where Node's permission model does not hold it", async () => {
    const { code, said } = await play(WORKER, `${PYODIDE}/`, HARNESS, String(512 * MIB));
    expect(code).toBe(1);
    // Bun stops before that: it lacks what the worker closes the door on modules with.
    expect(said).toMatch(runtime === "bun" ? /registerHooks/ : /under Node's permission model alone/);
  });
});
