/** Loaded before an example: whatever port it names, it listens at any free one of this machine alone, and says which. */

const say = (port) => console.log(`listening at ${port}`);

if (globalThis.Bun) {
  const { serve } = Bun;
  Bun.serve = (options) => {
    const server = serve({ ...options, port: 0, hostname: "127.0.0.1" });
    say(server.port);
    return server;
  };
} else if (globalThis.Deno) {
  const { serve } = Deno;
  Deno.serve = (options, handler) =>
    serve({ ...options, port: 0, hostname: "127.0.0.1", onListen: ({ port }) => say(port) }, handler);
} else {
  const { Server } = await import("node:net");
  const { listen } = Server.prototype;
  Server.prototype.listen = function (first, ...rest) {
    // SvelteKit names its port as a text.
    if (Number.isNaN(Number.parseInt(first?.port ?? first))) return listen.call(this, first, ...rest);
    this.once("listening", () => say(this.address().port));
    return listen.call(this, { port: 0, host: "127.0.0.1" }, ...rest.filter((one) => typeof one === "function"));
  };
}
