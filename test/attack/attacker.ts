/** The process of one class of attacks: it runs the plan of its parent, and notes the number of each attempt. */

import process from "node:process";
import { answerParent } from "../trial/child.ts";
import { attacks } from "./attacks.ts";
import { attack, type Plan } from "./frame.ts";

answerParent(async (plan: Plan, note) => {
  const own = attacks.find(({ name }) => name === process.argv[2]);
  if (!own) throw new Error(`There is no attack ${process.argv[2]}.`);
  return attack(own, { ...plan, begin: note });
});
