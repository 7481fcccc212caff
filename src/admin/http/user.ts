/** The user of the admin. */

/** Somebody who may use the admin, as the host knows them. */
export interface AdminUser {
  /** Stands in the log of changes: 1 to 200 characters. */
  readonly name: string;
  /** True for a user who may look, and change nothing. Default: false. */
  readonly readOnly?: boolean;
}
