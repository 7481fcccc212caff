// balanced.ts
import { promptCache } from "polygate/backends/affinity";
import { relay } from "polygate/backends/relay";
import { balance, canary, hedge, route, shadow } from "polygate/backends/route";
import { priceTable } from "polygate/prices";

const here = relay({ format: "chat-completions", baseUrl: "http://127.0.0.1:8080/v1" });
const there = relay({ format: "messages", baseUrl: "https://api.example.com/v1", apiKey: process.env["UPSTREAM_KEY"] });
const next = relay({ format: "messages", baseUrl: "https://next.example.com/v1", apiKey: process.env["NEXT_KEY"] });

const prices = priceTable({ fast: { input: 1, output: 5 } });

export const balanced = route({
  routes: {
    fast: {
      upstreams: [
        { backend: here, name: "here" },
        { backend: there, name: "there", model: "small-2" },
        { backend: next, name: "next", model: "small-3" },
      ],
      affinity: promptCache({ price: prices.price }),
      balance: balance({ by: "latency" }),
      canary: canary({ upstreams: ["next"], share: 0.02, metadata: { ring: "early" } }),
      hedge: hedge({ percentile: 0.95, share: 0.05 }),
      onBreak: "continue",
      shadow: shadow({
        upstream: { backend: next, name: "shadow", model: "small-4" },
        share: 0.02,
        onAnswer: ({ requestId, usage, errorCode, firstEventMs }) =>
          console.log(requestId, usage, errorCode, firstEventMs),
      }),
    },
  },
});
