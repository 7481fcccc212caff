/** What a call tells while it is under way. */

export interface Listener {
  readonly onUpload: (share: number) => void;
  readonly onHead: (status: number, headers: readonly (readonly [string, string])[]) => void;
  readonly onText: (text: string) => void;
}
