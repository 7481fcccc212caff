/**
 * Stands in for Pyodide, and is an attacker in its place: JavaScript that holds every module of Node's that Pyodide holds, and more.
 * Once the process has given up what it could do harm with, it tries each way out, and prints how each one ended.
 */

import child from "node:child_process";
import * as childNames from "node:child_process";
import crypto from "node:crypto";
import dgram from "node:dgram";
import dns from "node:dns";
import events from "node:events";
import fs from "node:fs";
import * as fsNames from "node:fs";
import promises from "node:fs/promises";
import http from "node:http";
import http2 from "node:http2";
import inspector from "node:inspector";
import module, { createRequire } from "node:module";
import * as moduleNames from "node:module";
import net from "node:net";
import * as netNames from "node:net";
import process from "node:process";
import stream from "node:stream";
import tls from "node:tls";
import vm from "node:vm";
import threads from "node:worker_threads";

const require = createRequire(import.meta.url);
const beside = new URL("written", import.meta.url);
const real = globalThis;
// Functions held from the start: files and processes are Node's permission model to refuse, not the emptied modules'.
const { readFileSync, writeFileSync, openSync, readdirSync, readlinkSync, symlinkSync } = fs;
const { spawnSync } = child;
const { Worker } = threads;
const { pid: ownPid, kill, dlopen } = process;

const attempts = ({ port, secret, written, pid }) => ({
  "the environment": () => process.env.POLYGATE_TEST_SECRET ?? real.process.env.POLYGATE_TEST_SECRET ?? fail(),
  "the arguments": () => process.argv[1] ?? real.process.argv[1] ?? fail(),
  "a file by the module": () => fs.readFileSync(secret, "utf8"),
  "a file by the module's names": () => fsNames.readFileSync(secret, "utf8"),
  "a file by promises": () => promises.readFile(secret, "utf8"),
  "a file by a kept function": () => readFileSync(secret, "utf8"),
  "a file in /proc": () => readFileSync("/proc/self/environ", "utf8"),
  "the parent's environment": () => readFileSync(`/proc/${pid}/environ`, "utf8"),
  "the memory of the process": () => openSync("/proc/self/mem"),
  "a folder": () => readdirSync("/"),
  "a link": () => readlinkSync("/proc/self/exe"),
  "a new link": () => symlinkSync(secret, `${written}.link`),
  "a written file": () => writeFileSync(written, "x"),
  "a written file beside Pyodide": () => writeFileSync(beside, "x"),
  "a process": () => child.spawnSync("true"),
  "a process by the module's names": () => childNames.spawn("true"),
  "a process by a kept function": () => ended(spawnSync("true")),
  "a thread": () => new Worker("1", { eval: true }),
  "a signal": () => process.kill(pid, 0),
  "a signal by a kept function": () => kill(pid, 0),
  "an addon": () => dlopen({ exports: {} }, "/lib/none.node"),
  "a binding of Node's": () => process.binding("tcp_wrap"),
  "a module by its name": () => process.getBuiltinModule("net").connect(port, "127.0.0.1"),
  "a module by import": async () => (await import("node:net")).connect(port, "127.0.0.1"),
  "a module of text": async () => (await import("data:text/javascript,export default 1")).default,
  "a module by require": () => require("node:net").connect(port, "127.0.0.1"),
  "a module by a new require": () => module.createRequire("/")("node:net").connect(port, "127.0.0.1"),
  "a module by its loader": () => moduleNames.Module["_load"]("node:net").connect(port, "127.0.0.1"),
  "code by Function": () => real.Function("return 1")(),
  "code by an asynchronous function": () => (async () => {}).constructor("return 1")(),
  "code by eval": () => (0, real.eval)("1"),
  "code in a context": () => vm.runInThisContext("1"),
  "the inspector": () => inspector.open(0),
  "a connection": () => net.connect(port, "127.0.0.1"),
  "a connection by the module's names": () => netNames.connect(port, "127.0.0.1"),
  "a socket": () => new net.Socket().connect(port, "127.0.0.1"),
  "a listener": () => net.createServer().listen(0),
  "a connection over TLS": () => tls.connect(port, "127.0.0.1"),
  "a request": () => http.get(`http://127.0.0.1:${port}`),
  "a session": () => http2.connect(`http://127.0.0.1:${port}`),
  "a fetch": () => real.fetch(`http://127.0.0.1:${port}`),
  "a WebSocket": () => new real.WebSocket(`ws://127.0.0.1:${port}`),
  "a datagram": () => dgram.createSocket("udp4").send("x", port, "127.0.0.1"),
  "a name of the network": () => dns.resolve("localhost", () => {}),
  "a stream": () => new stream.Readable(),
  "an emitter's module": () => events.once,
  "a library of ciphers": () => crypto.setEngine("/lib/none.so"),
});

function fail() {
  throw new Error("It is not there.");
}

function ended({ error, status }) {
  if (error) throw error;
  return status;
}

/** Says how an attempt ended. The process ends in the turn in which the code returns, and so before any promise is settled. */
function told(attempt) {
  try {
    const value = attempt();
    if (value === undefined) return "stopped: undefined";
    return value instanceof Promise ? "stopped: pending" : `reached: ${typeof value}`;
  } catch (error) {
    return `stopped: ${error.code ?? error.name}`;
  }
}

/** The part of Pyodide's interface that the worker uses. The code tells it whom to attack, or to stay. */
export async function loadPyodide() {
  const output = { write: () => {} };
  const names = new Map([
    ["close_bridges", () => {}],
    ["ready", (code) => code],
  ]);
  return {
    _api: { config: {} },
    _module: { PyProxy_getPtr: (code) => code, _PyObject_CallNoArgs: escape, _PyObject_IsTrue: () => 1 },
    makeMemorySnapshot: () => new Uint8Array([1]),
    runPython: () => names,
    setStdout: ({ write }) => (output.write = write),
    setStderr: () => {},
  };

  function print(text) {
    output.write(new TextEncoder().encode(text));
  }

  function escape(code) {
    const { stays, ...known } = JSON.parse(code);
    if (stays) {
      print(String(ownPid));
      for (;;);
    }
    const ends = Object.entries(attempts(known)).map(([name, attempt]) => [name, told(attempt)]);
    print(JSON.stringify(Object.fromEntries(ends)));
    return 1;
  }
}
