/** Starts nginx, where it is installed, before the upstream: one process, with kept connections on both sides. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { ServerState } from "../server.ts";

// Debian installs nginx outside the path of ordinary users.
const env = { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin` };

/** Returns true when nginx is installed and the system reports the CPU time of processes. */
export const hasNginx = (): boolean =>
  existsSync("/proc/self/stat") && spawnSync("nginx", ["-v"], { env }).status === 0;

/** A tick of `/proc/<pid>/stat`, in microseconds. */
const TICK_MICROS = 10_000;

const config = (folder: string, port: number, upstream: string): string => `
daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/errors;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  scgi_temp_path ${folder}/scgi; uwsgi_temp_path ${folder}/uwsgi;
  upstream upstream { server ${new URL(upstream).host}; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://upstream; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header connection ""; proxy_set_header x-api-key sk-upstream;
    }
  }
}
`;

/** Starts nginx, and resolves when it listens. Either process ends with the other. */
export async function startNginx(upstream: string): Promise<() => ServerState & { readonly pid: number }> {
  const folder = mkdtempSync(join(tmpdir(), "polygate-nginx-"));
  const port = await freePort();
  writeFileSync(join(folder, "nginx.conf"), config(folder, port, upstream));
  const nginx = spawn("nginx", ["-c", join(folder, "nginx.conf"), "-e", join(folder, "errors")], { env });
  nginx.once("exit", () => process.exit());
  process.once("exit", () => {
    nginx.kill();
    rmSync(folder, { recursive: true });
  });
  while (!(await isListening(port))) await setTimeout(20);
  return () => ({ port, cpuMicros: cpuMicros(nginx.pid), pid: nginx.pid ?? 0 });
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  }).finally(() => socket.destroy());
}

/** Reads the CPU time of a process: the 12th and 13th field behind the name in parentheses, of the user and the system. */
export function cpuMicros(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MICROS;
}
