// describe.ts
import { writeFile } from "node:fs/promises";
import { openApiDocument } from "polygate/openapi";
import { gateway } from "./gateway.ts";

const document = openApiDocument(gateway, { title: "Our models", servers: [{ url: "https://example.com/ai" }] });
await writeFile("openapi.json", JSON.stringify(document, null, 2));
