/** Shows the document at /openapi.json. */

declare const SwaggerUIBundle: (options: object) => unknown;

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  // The badge of a validator would be fetched from elsewhere.
  validatorUrl: null,
});
