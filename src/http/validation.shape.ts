/** What a schema is made of, for walks over what it describes. */

import type * as v from "valibot";

/** The pieces of a schema, of whichever kind it is. */
export interface Shape {
  readonly type: string;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly value?: v.GenericSchema;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly options?: readonly v.GenericSchema[];
  readonly getter?: (input: unknown) => v.GenericSchema;
  /** Which of its options a value is held to. */
  readonly "~choose"?: (input: unknown) => v.GenericSchema;
}

type Piped = Shape & { readonly pipe?: readonly [v.GenericSchema, ...unknown[]] };

/** A schema without what a pipe adds to it. */
export function shapeOf(schema: v.GenericSchema): Shape {
  const { pipe } = schema as Piped;
  return pipe ? shapeOf(pipe[0]) : schema;
}
