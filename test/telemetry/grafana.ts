/** The dashboard and the alert rules, as the package has them. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: object;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly legendFormat: string;
    readonly instant?: boolean;
    readonly datasource: object;
  }[];
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string; readonly noValue?: string } };
}

interface Variable {
  readonly name: string;
  readonly type: string;
  readonly query: string | { readonly query: string };
}

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description?: string };
}

/** A rule whose result is a metric that alert rules read. */
export interface Recording {
  readonly record: string;
  readonly expr: string;
}

interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
}

const pathOf = (name: string): string => fileURLToPath(new URL(`../../grafana/${name}`, import.meta.url));

export const dashboard: Dashboard = JSON.parse(readFileSync(pathOf("dashboard.json"), "utf8")) as Dashboard;

/** The panels without the rows that they stand in. */
export const panels: readonly Panel[] = dashboard.panels.filter(({ type }) => type !== "row");

/** Each question of the dashboard. */
export const targets: readonly (NonNullable<Panel["targets"]>[number] & Pick<Panel, "title">)[] = panels.flatMap(
  ({ title, targets: own = [] }) => own.map((target) => ({ title, ...target })),
);

/** The path of the alert rules. */
export const RULES: string = pathOf("alerts.yaml");

/** A file of rules for Prometheus. */
export interface RuleFile {
  readonly groups: readonly { readonly rules: readonly (Rule | Recording)[] }[];
}

const { groups } = parse(readFileSync(RULES, "utf8")) as RuleFile;
const all = groups.flatMap((group) => group.rules);

export const rules: readonly Rule[] = all.filter((rule) => "alert" in rule);
export const recordings: readonly Recording[] = all.filter((rule) => "record" in rule);
