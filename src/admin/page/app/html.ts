/** The page's templates: HTML in tagged template strings, rendered by Preact. */

import { html as htm } from "htm/preact";
import type { ComponentChildren, VNode } from "preact";

export type View = VNode | VNode[] | null;
export type Children = ComponentChildren;

export const html = htm as (strings: TemplateStringsArray, ...values: readonly unknown[]) => VNode;
