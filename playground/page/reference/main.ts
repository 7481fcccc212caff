/** Shows the document at /openapi.json in the theme of the playground. */

declare const SwaggerUIBundle: (options: object) => unknown;

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The page at `/` keeps the user's choice under this name. Without a choice, the system decides. */
function showTheme(): void {
  const chosen = localStorage.getItem("polygate-theme");
  const isDark = chosen === "dark" || (chosen !== "light" && dark.matches);
  document.documentElement.classList.toggle("dark-mode", isDark);
}

showTheme();
dark.addEventListener("change", showTheme);
addEventListener("storage", showTheme);

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  // The validator's badge would come from another server.
  validatorUrl: null,
});
