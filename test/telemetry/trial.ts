/** A Prometheus that scrapes a gateway: it takes the metrics and the alert rules, and finds data for each panel of the dashboard. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { EVERYTHING, type Outcome, type Subject, type Trial } from "../trial/frame.ts";
import { RULES, targets } from "./grafana.ts";
import { scrapedGateway } from "./traffic.ts";

const PROMETHEUS = "/usr/bin/prometheus";

interface Flags extends Readonly<Record<string, number>> {
  readonly seconds: number;
}

export const prometheusTrial: Trial<Subject, Flags> = {
  name: "prometheus",
  does: "Runs the alert rules in Prometheus, and asks it for each panel of the dashboard. Needs the package prometheus.",
  flags: { seconds: 60 },
  subjects: [{ ...EVERYTHING, available: existsSync(PROMETHEUS) }],
  async run(_subject, { seconds }): Promise<Outcome> {
    const problems: string[] = [];
    const cases = fileURLToPath(new URL("alerts.json", import.meta.url));
    const promtool = async (args: readonly string[], input = ""): Promise<void> => {
      const running = promisify(execFile)("promtool", args);
      running.child.stdin?.end(input);
      await running.catch(({ stdout, stderr }: { stdout: string; stderr: string }) =>
        problems.push(`promtool ${args.join(" ")}: ${stdout}${stderr}`),
      );
    };
    await promtool(["check", "rules", RULES]);
    await promtool(["test", "rules", cases]);
    await using gateway = await scrapedGateway();
    const folder = await mkdtemp(join(tmpdir(), "polygate-prometheus-"));
    const port = await freePort();
    const config = {
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: [RULES],
      scrape_configs: [{ job_name: "gateway", static_configs: [{ targets: [new URL(gateway.url).host] }] }],
    };
    await writeFile(join(folder, "prometheus.json"), JSON.stringify(config));
    const child = spawn(
      PROMETHEUS,
      [
        `--config.file=${join(folder, "prometheus.json")}`,
        `--storage.tsdb.path=${join(folder, "data")}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: "ignore" },
    );
    try {
      const until = Date.now() + seconds * 1_000;
      // The first scrape must see the counters before they grow.
      for (let round = 0; Date.now() < until; round++, await pause(500))
        await (round % 10 === 5 ? gateway.send() : gateway.sendSettled());
      await promtool(["check", "metrics"], await (await fetch(gateway.url)).text());
      const rows = [];
      for (const { title, legendFormat, expr } of targets) {
        const found = await query(port, "query", { query: filled(expr) });
        const { result } = found.data as { result: readonly { value: readonly [time: number, value: string] }[] };
        if (result.every(({ value: [, value] }) => value === "NaN"))
          problems.push(`${title}, ${legendFormat}: no data for ${expr}`);
        rows.push({ panel: title, legend: legendFormat, series: result.length });
      }
      const { alerts } = (await query(port, "alerts")).data as {
        alerts: { state: string; labels: Record<string, string> }[];
      };
      const told = alerts.map(({ state, labels }) => `${labels["alertname"]} is ${state}`);
      if (!told.includes("PolygateChargeLost is firing")) problems.push("The alert of a lost charge does not fire.");
      return { rows, problems, notes: [...new Set(told)] };
    } finally {
      child.kill();
      if (child.exitCode === null) await once(child, "exit");
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** Puts values in the place of Grafana's variables. */
const filled = (expression: string): string =>
  expression
    .replaceAll(/\$(?:instance|model|budget)/g, ".*")
    .replaceAll("$units", "1000000")
    .replaceAll(/\$__\w+/g, "30s");

async function query(port: number, verb: string, parameters: Record<string, string> = {}): Promise<{ data: unknown }> {
  const address = `http://127.0.0.1:${port}/api/v1/${verb}?${new URLSearchParams(parameters).toString()}`;
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} answers ${response.status}: ${await response.text()}`);
  return (await response.json()) as { data: unknown };
}

/** Returns a port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
