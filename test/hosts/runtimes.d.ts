/** What hosts use of the globals of Bun and Deno, whose own types cannot stand beside those of Node. */

declare namespace Bun {
  interface Server {
    readonly port: number;
    timeout(request: Request, seconds: number): void;
    stop(closeActiveConnections?: boolean): Promise<void>;
  }
  type Handler = (request: Request, server: Server) => Response | Promise<Response>;
  function serve(options: {
    readonly hostname?: string;
    readonly port?: number;
    readonly idleTimeout?: number;
    readonly maxRequestBodySize?: number;
    readonly websocket?: object;
    readonly websocket?: object;
    readonly fetch?: Handler;
    readonly routes?: Readonly<Record<string, Handler>>;
  }): Server;
}

declare namespace Deno {
  interface ServeHandlerInfo {
    readonly completed: Promise<void>;
  }
  interface HttpServer {
    readonly addr: { readonly port: number };
    shutdown(): Promise<void>;
  }
  function serve(
    options: {
      readonly hostname?: string;
      readonly port?: number;
      readonly signal?: AbortSignal;
      readonly onListen?: (address: { readonly port: number }) => void;
    },
    handler: (request: Request, info: ServeHandlerInfo) => Response | Promise<Response>,
  ): HttpServer;
}
