/** Starts the page. */

import { render } from "preact";
import { followDocs, followTitle } from "./state/docs.ts";
import { findFormats } from "./state/draft.ts";
import { followModels } from "./state/models.ts";
import { followKey } from "./state/quota.ts";
import { App } from "./view/app.ts";
import { html } from "./view/html.ts";

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
followDocs();
followTitle();
followKey();
followModels();
await findFormats();
