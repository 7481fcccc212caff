/** The options that every benchmark gets. */

/** The flags and words of a benchmark's command. */
export interface BenchOptions {
  readonly isQuick: boolean;
  readonly isProfile: boolean;
  /** The words that a row's name must contain. */
  readonly only: readonly string[];
}
