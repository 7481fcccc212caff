/** A WebSocket between a mount and the gateway: the events and the functions of each side. */

/** The gateway's end of a WebSocket, as a mount gives it. After `close`, and once the client is gone, its methods do nothing. */
export interface SocketPeer {
  /**
   * Sends a text message. Returns undefined when the client takes more, and otherwise a promise that resolves when the client does, or when
   * it is gone.
   */
  send(message: string): Promise<void> | undefined;
  /** Closes the connection, behind all messages. */
  close(code: number, reason: string): void;
  /** Ends the connection at once, and has the handler told so, even where the runtime can only ask the client to close. */
  terminate(): void;
}

/** Receives the events of a WebSocket. A mount calls `open` once, before anything else, and `closed` once, after everything else. */
export interface SocketHandler {
  open(peer: SocketPeer): void;
  /** A message has come, text or UTF-8. */
  message(message: string | Uint8Array): void;
  /**
   * A piece of a message has come, and the message's end has not. Returns false for a client to which no more memory is given: the mount
   * ends the connection. For mounts that collect messages of any size themselves; others do not call this.
   */
  arriving(bytes: number): boolean;
  /** The connection is closed. */
  closed(): void;
  /** The longest message, in bytes. */
  readonly maxMessageBytes: number;
}
