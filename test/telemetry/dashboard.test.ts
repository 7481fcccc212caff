/** The dashboard, the alert rules and the table of metrics in the docs ask for metrics and labels that a gateway exposes. */

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { exitCodeOf } from "../../src/admin/command-line.ts";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import type { CallOutcome } from "../../src/index.ts";
import { dashboard, panels, recordings, type RuleFile, rules, targets } from "./grafana.ts";
import { scrapedGateway } from "./traffic.ts";

/** The labels of each exposed series' name, each with its values. A server that scrapes adds `instance` and `job`. */
let exposed: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;
/** The names of the series of a gateway that has not answered any call. */
let atStart: ReadonlySet<string>;
/** The names of the metrics. */
let metrics: ReadonlySet<string>;

beforeAll(async () => {
  await using gateway = await scrapedGateway();
  const read = async (): Promise<string> => (await fetch(gateway.url)).text();
  atStart = new Set(Array.from((await read()).matchAll(/^(\w+)[{ ]/gm), ([, name = ""]) => name));
  await gateway.send();
  const text = await read();
  const names = Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name = ""]) => name);
  metrics = new Set(names.filter((name) => /^(?:gen_ai|polygate)_/.test(name)));
  const series = new Map<string, Map<string, Set<string>>>();
  for (const [, name = "", labels = ""] of text.matchAll(/^(\w+)\{(.*)\} \S+$/gm)) {
    const known = series.get(name) ?? scraped();
    series.set(name, known);
    for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="([^"]*)"/g))
      known.set(label, (known.get(label) ?? new Set()).add(value));
  }
  // Prometheus itself has these.
  exposed = new Map([...series, ["up", scraped()], ["ALERTS", alerts()], ...recorded()]);
});

/** The labels that a server adds when it scrapes. */
const scraped = (): Map<string, Set<string>> =>
  new Map(["instance", "job"].map((label) => [label, new Set([".*"])] as const));

/** The labels of alerts: their names, and those of the results of their rules. */
const alerts = (): Map<string, Set<string>> =>
  new Map([
    ...rules.flatMap(({ expr }) => askedBy(expr).by.map((label) => [label, new Set([".*"])] as const)),
    ["alertname", new Set(rules.map(({ alert }) => alert))] as const,
  ]);

/** The metrics of recording rules, each with its labels. */
const recorded = (): (readonly [record: string, labels: Map<string, Set<string>>])[] =>
  recordings.map(({ record, expr }) => [record, new Map(askedBy(expr).by.map((label) => [label, new Set([".*"])]))]);

/** An increase that counts a new series from 0. */
const FROM_ZERO =
  /\(\((\S.*?) unless last_over_time\(\1\[1h\] offset (\w+)\)\) and on \(job\) up offset \2\)\s+or increase\(\1\[\2\]\)/g;

/** What an expression asks for. */
interface Asked {
  readonly selectors: readonly {
    metric: string;
    matchers: readonly [label: string, operator: string, value: string][];
    /** True behind `on ()`, where the labels of the result are those of the other side. */
    isCondition: boolean;
  }[];
  /** The labels of the result. */
  readonly by: readonly string[];
  /** The labels that the expression itself adds. */
  readonly made: readonly string[];
  /** The metrics inside `rate` and `increase`. */
  readonly rated: readonly string[];
  readonly isBroken: boolean;
}

/** Parses an expression as Prometheus does. Grafana puts values in the place of variables before. */
function askedBy(expression: string): Asked {
  const whole = expression.replaceAll(/\[\$\w+\]/g, "[5m]").replaceAll("$units", "1000000");
  const text = whole.replaceAll(FROM_ZERO, "increase($1[$2])");
  const selectors: { metric: string; matchers: [string, string, string][]; isCondition: boolean }[] = [];
  const by: string[] = [];
  const rated: string[] = [];
  let isBroken = false;
  parser.parse(whole).iterate({
    enter({ type }) {
      isBroken ||= type.isError;
    },
  });
  parser.parse(text).iterate({
    enter({ name, from, to, node }) {
      const told = text.slice(from, to);
      if (name === "VectorSelector") {
        const metric = node.getChild("Identifier");
        const isCondition = /\bon \(\)\s*$/.test(text.slice(0, from));
        selectors.push({ metric: metric ? text.slice(metric.from, metric.to) : "", matchers: [], isCondition });
        if (isRated(node, text)) rated.push(selectors.at(-1)?.metric ?? "");
      }
      if (name === "UnquotedLabelMatcher") {
        const [, label = "", operator = "", value = ""] = /^(\w+)\s*(=~|!~|!=|=)\s*"(.*)"$/.exec(told) ?? [];
        selectors.at(-1)?.matchers.push([label, operator, value]);
      }
      if (name === "GroupingLabels") by.push(...(told.match(/\w+/g) ?? []));
    },
  });
  const made = Array.from(text.matchAll(/"(\w+)", "\$1", "\w+"/g), ([, label = ""]) => label);
  return { selectors, by: [...new Set(by)], made, rated, isBroken };
}

type Node = NonNullable<ReturnType<ReturnType<typeof parser.parse>["resolve"]>>;

/** True for a selector of a range, which only `rate` and `increase` take here. */
function isRated(selector: Node, text: string): boolean {
  const call = selector.parent?.name === "MatrixSelector" ? selector.parent.parent?.parent : undefined;
  return call !== undefined && call !== null && /^(?:rate|increase)\(/.test(text.slice(call.from, call.to));
}

/** The reasons for which an expression finds nothing on a gateway. */
function problemsOf(expression: string): string[] {
  const { selectors, by, made, rated, isBroken } = askedBy(expression);
  const problems: string[] = isBroken || selectors.length === 0 ? ["is no PromQL"] : [];
  for (const { metric, matchers, isCondition } of selectors) {
    const labels = exposed.get(metric);
    if (!labels) problems.push(`no metric ${metric}`);
    for (const label of [...(isCondition ? [] : by), ...matchers.map(([name]) => name)])
      // The buckets of a histogram have this label, and its other series do not.
      if (labels && !labels.has(label) && !made.includes(label) && !(label === "le" && metric.endsWith("_count")))
        problems.push(`${metric} has no label ${label}`);
    for (const [label, operator, value] of matchers)
      if (value !== "" && !value.startsWith("$") && !mayBe(labels?.get(label), label, value))
        problems.push(`${metric} has no ${label}${operator}"${value}"`);
  }
  for (const metric of rated)
    if (!/_(?:total|count|sum|bucket)$/.test(metric)) problems.push(`${metric} is no counter`);
  const gauges = selectors.filter(({ metric }) => /_(?:total|count|sum|bucket)$/.test(metric)).length - rated.length;
  return gauges === 0 ? problems : [...problems, "reads a counter without its rate"];
}

/** The values of labels that not every call can provoke here. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  error_type: GATEWAY_ERROR_CODES,
  polygate_outcome: Object.keys({
    completed: true,
    refused: true,
    failed: true,
    "client-closed": true,
    deadline: true,
    shutdown: true,
    stopped: true,
  } satisfies Record<CallOutcome, true>),
};

/** True when a value, or each alternative of a pattern, is exposed or possible. */
const mayBe = (values: ReadonlySet<string> | undefined, label: string, pattern: string): boolean => {
  const known = [...(values ?? []), ...(VALUES[label] ?? [])];
  return pattern.split("|").every((one) => known.some((value) => new RegExp(`^(?:${one})$`).test(value)));
};

describe("the check of expressions", () => {
  it.each([
    ["sum(rate(polygate_units_charged_total[5m])", "is no PromQL"],
    ["sum(rate(polygate_units_total[5m]))", "no metric polygate_units_total"],
    ["sum by (model) (polygate_call_active)", "polygate_call_active has no label model"],
    ['polygate_breaker_state{polygate_breaker_state="opened"}', 'no polygate_breaker_state="opened"'],
    ["rate(polygate_call_active[5m])", "polygate_call_active is no counter"],
    ["sum(polygate_units_charged_total)", "reads a counter without its rate"],
    ["polygate_hold_expired_total unless polygate_hold_expired_total offset 5m", "reads a counter without its rate"],
    ['sum(rate(gen_ai_server_request_duration_count{error_type=~"busy|full"}[5m]))', 'error_type=~"busy|full"'],
    ['ALERTS{alertname=~"PolygateFull|PolygateNone"}', 'no alertname=~"PolygateFull|PolygateNone"'],
  ])("finds what is wrong with %s", (expression, problem) => {
    expect(problemsOf(expression)).toContainEqual(expect.stringContaining(problem));
  });
});

describe("the dashboard", () => {
  it.each(targets.map((target) => [target.title, target.refId, target] as const))(
    "%s (%s) asks for what a gateway exposes",
    (_title, _refId, { expr, legendFormat }) => {
      expect(problemsOf(expr)).toEqual([]);
      const inLegend = Array.from(legendFormat.matchAll(/\{\{(\w+)\}\}/g), ([, label = ""]) => label);
      const by = askedBy(expr).by.filter((label) => label !== "le");
      expect(inLegend.toSorted()).toEqual(by.toSorted());
    },
  );

  it("filters only by models that callers name: an upstream may have another name for a model", () => {
    const chosen = JSON.stringify(dashboard.templating.list.find(({ name }) => name === "model")?.query);
    const [, metric = ""] = /label_values\((\w+), gen_ai_request_model\)/.exec(chosen) ?? [];
    const named = exposed.get(metric)?.get("gen_ai_request_model") ?? new Set();
    expect([...named]).toContain("alias-1");
    const selectors = targets.flatMap(({ title, expr }) =>
      askedBy(expr).selectors.map((selector) => ({ title, ...selector })),
    );
    const filtered = selectors.filter(({ matchers }) => matchers.some(([, , value]) => value === "$model"));
    expect(filtered.length).toBeGreaterThan(10);
    const strange = filtered.filter(({ metric: asked }) => {
      const values = exposed.get(asked)?.get("gen_ai_request_model") ?? new Set();
      return [...values].some((value) => !named.has(value));
    });
    expect(strange.map(({ title, metric: asked }) => [title, asked])).toEqual([]);
  });

  it("shows every metric", () => {
    const shown = new Set(targets.flatMap(({ expr }) => askedBy(expr).selectors.map(({ metric }) => metric)));
    const missing = [...metrics].filter(
      (name) => !["", "_count", "_sum", "_bucket"].some((suffix) => shown.has(name + suffix)),
    );
    expect(missing).toEqual([]);
  });

  it("says what is missing where a panel is empty until there are calls of its kind", () => {
    const empty = panels.filter(({ targets: own = [] }) =>
      own.every(({ expr }) => askedBy(expr).selectors.some(({ metric }) => !atStart.has(metric))),
    );
    expect(empty.length).toBeGreaterThan(20);
    // A host without `budgetMetrics` has no budgets here.
    const ofBudgets = panels.filter(({ targets: own = [] }) =>
      own.some(({ expr }) => expr.includes("polygate_budget_")),
    );
    for (const { title, fieldConfig } of [...empty, ...ofBudgets])
      expect([title, fieldConfig?.defaults.noValue]).toEqual([title, expect.stringMatching(/^\w[^.]+$/)]);
  });

  it("asks the data source that the user chooses, and fills its other choices from metrics", () => {
    const source = { type: "prometheus", uid: "${datasource}" };
    for (const { title, datasource, targets: own = [] } of panels)
      expect([title, datasource, ...own.map((target) => target.datasource)]).toEqual([
        title,
        source,
        ...own.map(() => source),
      ]);
    const variables = new Map(dashboard.templating.list.map((variable) => [variable.name, variable]));
    expect(variables.get("datasource")).toMatchObject({ type: "datasource", query: "prometheus" });
    const used = targets.flatMap(({ expr }) => Array.from(expr.matchAll(/\$(\w+)/g), ([, name = ""]) => name));
    expect(new Set(used)).toEqual(
      new Set([...variables.keys(), "__rate_interval", "__range"].filter((name) => name !== "datasource")),
    );
    const queried = [...variables.values()].filter(({ type }) => type === "query");
    expect(queried).toHaveLength(3);
    for (const { query } of queried) {
      const [, metric = "", label = ""] =
        /^label_values\((\w+), (\w+)\)$/.exec((query as { query: string }).query) ?? [];
      expect(exposed.get(metric)?.has(label)).toBe(true);
    }
  });

  it("asks once for a sum over the shown time, and draws rates in steps that fit the scrapes", () => {
    for (const { title, expr, instant = false } of targets) {
      expect([title, instant]).toEqual([title, expr.includes("[$__range]") || title === "Share of each budget"]);
      const windows = Array.from(expr.matchAll(/\w+\(\w+\{[^}]*\}\[(.+?)\]/g), ([, window]) => window);
      expect(windows.filter((window) => !["$__range", "$__rate_interval", "1h"].includes(window ?? ""))).toEqual([]);
    }
  });

  it("is complete, and no panel lies on another", () => {
    expect(dashboard).toMatchObject({ title: "polygate", uid: "polygate", schemaVersion: 39 });
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([title, x < 24, taken.has(`${x},${y}`)]).toEqual([title, true, false]);
          taken.add(`${x},${y}`);
        }
    for (const { title, type, description = "", fieldConfig, targets: own = [] } of panels) {
      expect(["timeseries", "stat", "state-timeline", "bargauge"]).toContain(type);
      expect([title, description.endsWith(".")]).toEqual([title, true]);
      expect(["reqps", "percentunit", "s", "currencyUSD", "short", "bytes"]).toContain(fieldConfig?.defaults.unit);
      expect(own.map(({ refId }) => refId)).toEqual("ABCDEFGH".slice(0, Math.max(1, own.length)).split(""));
    }
  });
});

/** What the annotations leave out of commands that they name only. */
const OPERANDS: Readonly<Record<string, readonly string[]>> = {
  why: ["req_3e2ac2d5"],
  "budgets top-up": ["name", "5"],
};

describe("the alert rules", () => {
  it.each(recordings.map(({ record, expr }) => [record, expr] as const))("read what %s asks for", (record, expr) => {
    expect(problemsOf(expr)).toEqual([]);
    expect([...rules, ...recordings].some((rule) => rule.expr.includes(record))).toBe(true);
  });

  it("tell of a process that ends by a metric that each process has from its start", () => {
    const down = rules.filter(({ expr }) => expr.includes("absent("));
    expect(down.map(({ alert }) => alert)).toEqual(["PolygateDown", "PolygateProcessDown"]);
    const read = down.flatMap(({ expr }) => askedBy(expr).selectors.map(({ metric }) => metric));
    expect(read.filter((metric) => metric !== "up" && !atStart.has(metric))).toEqual([]);
  });

  it.each(rules.map((rule) => [rule.alert, rule] as const))("%s asks for what a gateway exposes", (_name, rule) => {
    const { expr, annotations, labels } = rule;
    expect(problemsOf(expr)).toEqual([]);
    const { by } = askedBy(expr);
    const told = Array.from(JSON.stringify(annotations).matchAll(/\$labels\.(\w+)/g), ([, label]) => label);
    expect(told.filter((label) => !by.includes(label ?? ""))).toEqual([]);
    expect(["critical", "warning", "info"]).toContain(labels.severity);
    expect(annotations.summary).toMatch(/\.$/);
    expect(annotations.description).toMatch(/\.$/);
    expect(rule.for ?? "1m").toMatch(/^\d+m$/);
  });

  it("count errors from 0 where their series is new", () => {
    const all = [...rules, ...recordings].flatMap(({ expr }) =>
      Array.from(expr.replaceAll(FROM_ZERO, "").matchAll(/increase\((.*?)\)/g), ([, selector = ""]) => selector),
    );
    // Errors that go on have increased already, and answers are no errors.
    const others = all.filter(
      (selector) => !/\[3m\]$|polygate_outcome="completed"|error_type=""|time_to_first_token/.test(selector),
    );
    expect(others).toEqual([]);
    expect([...rules, ...recordings].filter(({ expr }) => expr.search(FROM_ZERO) >= 0).length).toBeGreaterThan(5);
  });

  it("name commands that the command line takes", async () => {
    const folder = await mkdtemp(join(tmpdir(), "polygate-alerts-"));
    const codeOf = (words: readonly string[]): Promise<number> =>
      exitCodeOf([...words, "--store", `sqlite:${join(folder, "gateway.db")}`], {
        env: {},
        print: () => {},
        read: () => Promise.reject(new Error("There is no input.")),
        home: { manifest: { version: "0" } } as never,
        servers: {} as never,
      });
    expect(await codeOf(["keys", "migrate"])).toBe(0);
    const texts = rules.map(({ annotations }) => annotations.description ?? "");
    const named = texts.flatMap((text) => Array.from(text.matchAll(/`polygate ([^`]+)`/g), ([, words = ""]) => words));
    const commands = new Set(
      named.map((words) => words.replaceAll(/'?\{\{ \$labels\.\w+ \}\}'?/g, "name").replace("AMOUNT", "5")),
    );
    expect(commands.size).toBeGreaterThan(8);
    for (const command of commands) {
      const words = [...command.split(" "), ...(OPERANDS[command] ?? [])];
      // 1 says that the store has no such budget or call, and 2 that there is no such command or option.
      expect([command, (await codeOf(words)) < 2]).toEqual([command, true]);
    }
    expect(await codeOf(["calls", "--outcomes", "failed"])).toBe(2);
    await rm(folder, { recursive: true });
  });

  it("have names of their own", () => {
    expect(rules.length).toBeGreaterThan(10);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });
});

/** The scenarios of `promtool`, which the trial of Prometheus runs. */
const scenarios = JSON.parse(readFileSync(new URL("alerts.json", import.meta.url), "utf8")) as {
  tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
};

it("each alert rule has a scenario in which it fires, and one in which it is silent", () => {
  const cases = scenarios.tests.flatMap(({ alert_rule_test }) => alert_rule_test);
  const names = (fires: boolean): string[] =>
    cases.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires).map(({ alertname }) => alertname);
  for (const { alert } of rules) expect([alert, names(true).includes(alert)]).toEqual([alert, true]);
  const silent = new Set(names(false));
  expect(rules.map(({ alert }) => alert).filter((alert) => !silent.has(alert))).toEqual([]);
});

describe("the docs", () => {
  const page = readFileSync(new URL("../../docs/telemetry.md", import.meta.url), "utf8");

  it("ask for what a gateway exposes", () => {
    const queries = Array.from(page.matchAll(/```promql\n(.+?)\n```/gs), ([, query = ""]) => query);
    expect(queries.length).toBeGreaterThan(1);
    const files = Array.from(page.matchAll(/```yaml\n(groups:.+?)\n```/gs), ([, file = ""]) => parse(file) as RuleFile);
    const alerts = files.flatMap(({ groups }) => groups.flatMap((group) => group.rules.map(({ expr }) => expr)));
    expect(alerts.length).toBeGreaterThan(0);
    expect([...queries, ...alerts].flatMap(problemsOf)).toEqual([]);
  });

  it("name alerts that there are", () => {
    const known = rules.map(({ alert }) => alert);
    const named = Array.from(page.matchAll(/`(Polygate\w+)`/g), ([, name = ""]) => name);
    expect(named.length).toBeGreaterThan(1);
    expect(named.filter((name) => !known.includes(name))).toEqual([]);
  });

  it("list every metric, and no other", () => {
    const list = readFileSync(new URL("../../docs/reference/metrics.md", import.meta.url), "utf8");
    const heads = Array.from(list.matchAll(/^- (.*?):\s/gm), ([, head = ""]) => head);
    const told = heads.flatMap((head) => Array.from(head.matchAll(/`([\w.]+)`/g), ([, name = ""]) => name));
    const names = [...metrics].map((name) => name.replace(/_total$/, ""));
    expect(told.map((name) => name.replaceAll(".", "_")).toSorted()).toEqual(names.toSorted());
  });
});
