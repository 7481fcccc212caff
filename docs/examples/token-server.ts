// token-server.ts
import { relay } from "polygate/backends/relay";

async function askTokenServer() {
  const response = await fetch("https://login.example.com/token", { method: "POST" });
  const { access_token, expires_in } = (await response.json()) as { access_token: string; expires_in: number };
  return { apiKey: access_token, expiresAt: Date.now() + expires_in * 1_000 };
}

export const renewed = relay({
  format: "chat-completions",
  baseUrl: "https://api.example.com/v1",
  apiKey: askTokenServer,
});
