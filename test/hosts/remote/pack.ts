/** Values as JSON and back, with what JSON has no word for: errors and their causes, bytes, undefined, odd numbers, functions. */

import { GatewayError } from "../../../src/index.ts";
import { toBase64 } from "../../../src/media/base64.ts";

/** The field that marks a value which JSON has no word for. */
const KIND = "$kind";

export function pack(value: unknown): unknown {
  if (value === undefined) return { [KIND]: "undefined" };
  if (typeof value === "function") return { [KIND]: "function", fields: pack(Object.assign({}, value)) };
  if (typeof value === "number" && !Number.isFinite(value)) return { [KIND]: "number", text: String(value) };
  if (value instanceof Uint8Array) return { [KIND]: "bytes", base64: toBase64(value) };
  if (value instanceof Error) {
    const { name, message, stack, cause } = value;
    return { [KIND]: "error", fields: pack(Object.assign({}, value, { name, message, stack, cause })) };
  }
  if (Array.isArray(value)) return value.map(pack);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, pack(field)]));
  return value;
}

/** What stands for a function, by where it is, which is keys from the root with dots between, and by its own fields. */
export type FunctionAt = (path: string, fields: unknown) => unknown;

export function unpack(packed: unknown, functionAt: FunctionAt = () => undefined, path = ""): unknown {
  const unpackAt = (key: string, field: unknown): unknown =>
    unpack(field, functionAt, path === "" ? key : `${path}.${key}`);
  if (Array.isArray(packed)) return packed.map((item, index) => unpackAt(String(index), item));
  if (typeof packed !== "object" || packed === null) return packed;
  const { [KIND]: kind, ...fields } = packed as Readonly<Record<string, unknown>>;
  switch (kind) {
    case "undefined":
      return undefined;
    case "function":
      return functionAt(path, unpack(fields["fields"]));
    case "number":
      return Number(fields["text"]);
    case "bytes":
      return fromBase64(String(fields["base64"]));
    case "error":
      return errorOf(unpack(fields["fields"]) as ErrorFields);
    default:
      return Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, unpackAt(key, field)]));
  }
}

interface NativeBase64 {
  readonly fromBase64?: (text: string) => Uint8Array;
}

/** Natively, since pictures of 25 MiB go to and fro: Node 24 has no other way than its Buffer, and workerd has no Buffer. */
function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as NativeBase64).fromBase64;
  return native ? native.call(Uint8Array, text) : new Uint8Array(Buffer.from(text, "base64"));
}

interface ErrorFields {
  readonly name: string;
  readonly message: string;
  readonly cause?: unknown;
}

function errorOf({ name, message, ...fields }: ErrorFields): Error {
  if (name !== "GatewayError") return Object.assign(new Error(message), name !== "Error" && { name }, fields);
  const { code, ...details } = fields as ErrorFields & Pick<GatewayError, "code">;
  return new GatewayError(code, message, details);
}
