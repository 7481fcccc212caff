/** Lets changes that come at the same time share a write, for databases in which every write waits for the disk. */

/** The most items that share a write. */
export const MOST_AT_ONCE = 64;

/**
 * Lets items that come while a write runs share the next write. When a shared write fails, each of its items is written alone.
 *
 * @param most The most items of a write. With 1, no item waits for another.
 */
export function grouped<Item>(
  most: number,
  write: (items: readonly Item[]) => Promise<void>,
): (item: Item) => Promise<void> {
  if (most === 1) return (item) => write([item]);
  const waiting: { readonly item: Item; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] =
    [];
  let isWriting = false;
  const writeAll = async (): Promise<void> => {
    isWriting = true;
    while (waiting.length > 0) {
      const group = waiting.splice(0, most);
      const shared = group.length > 1 && write(group.map(({ item }) => item));
      const isWritten = await Promise.resolve(shared).then(
        () => shared !== false,
        () => false,
      );
      for (const { item, resolve, reject } of group)
        if (isWritten) resolve();
        else await write([item]).then(resolve, reject);
    }
    isWriting = false;
  };
  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!isWriting) void writeAll();
    });
}
