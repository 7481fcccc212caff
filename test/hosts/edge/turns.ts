/** Node's turns of the event loop, for a runtime that has none of its modules. */

export const setImmediate = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
