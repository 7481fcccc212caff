// worker-credentials.ts
import { vertexMessages } from "polygate/clouds/google";
import { relay, withCredentials } from "polygate/core";

export const claude = (apiKey: () => Promise<string>) =>
  relay({ ...vertexMessages({ project: "my-project", location: "global", apiKey }), features: [withCredentials] });
