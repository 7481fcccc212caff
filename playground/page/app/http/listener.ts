/** The functions that a running call reports to. */

export interface Listener {
  readonly onUpload: (share: number) => void;
  readonly onHead: (status: number, headers: readonly (readonly [string, string])[]) => void;
  readonly onText: (text: string) => void;
}
