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

/** Returns the shortest command that adds a package: to the copy of polygate that npx runs, or to the project that has polygate. */
export const commandToAdd = (name: string, place: string = import.meta.url): string =>
  place.includes("/_npx/") ? `npx -y -p polygate -p ${name} polygate demo` : `npm install ${name}`;
