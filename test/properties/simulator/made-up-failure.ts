/** A failure that the simulator has made up: no law is broken by it. */
export class MadeUpFailure extends Error {
  override readonly name = "MadeUpFailure";
}
