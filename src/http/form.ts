/** What a multipart form holds, and how much of it there may be. */

/** What a form may hold. Each is a positive integer. */
export interface MultipartLimits {
  /** The whole body, in bytes: 413, before it is read where the length is declared. */
  readonly maxUploadBytes: number;
  /** All that is not the content of a file (fields, part headers, boundaries), in bytes: 413. */
  readonly maxFormBytes: number;
  /** One field's value, in bytes: 413 that names the field. */
  readonly maxFieldBytes: number;
  /** Fields that are not files: 400 that names the first too many. */
  readonly maxFields: number;
  /** Files: 400 that names the field of the first too many. */
  readonly maxFiles: number;
}

/** What a form is held to. */
export interface FormRules {
  readonly limits: MultipartLimits;
  /** The largest file that a field may hold, in bytes, or undefined for a field that takes no file. */
  maxFileBytes(field: string): number | undefined;
}

/** A form as it came: names are the client's own (`image[]`), values are text. */
export interface Form {
  /** Each field's values in their order. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  /** The files in their order. */
  readonly files: readonly UploadedFile[];
}

export interface UploadedFile {
  readonly field: string;
  /** What the client calls the file, without folders; never to be used as a path. */
  readonly name: string | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
}
