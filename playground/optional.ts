/** Loads optional packages of the demo. */

/** Returns the result of a function that imports a module; undefined if a package is not installed. */
export async function optional<Loaded>(load: () => Promise<Loaded>): Promise<Loaded | undefined> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}
