/** Loads what the demo can do without. */

/** Returns what a function loads; undefined where a package for it is not installed. */
export async function optional<Loaded>(load: () => Promise<Loaded>): Promise<Loaded | undefined> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}
