/** The playground's page and its reference in a real browser, driven as their users do. */

import { describe } from "vitest";
import { chatSuite } from "./chat.ts";
import { conversationsSuite } from "./conversations.ts";
import { copyingSuite } from "./copying.ts";
import { everyoneSuite } from "./everyone.ts";
import { hardCasesSuite } from "./hard-cases.ts";
import { nearnessSuite } from "./nearness.ts";
import { picturesSuite } from "./pictures.ts";
import { readingSuite } from "./reading.ts";
import { referenceSuite } from "./reference.ts";
import { hasBrowser, openStage } from "./stage.ts";

describe.skipIf(!hasBrowser)("the page", () => {
  const stage = openStage();
  describe("the chat", () => {
    chatSuite(stage);
  });
  describe("a conversation", () => {
    conversationsSuite(stage);
  });
  describe("the hard cases", () => {
    hardCasesSuite(stage);
  });
  describe("the pictures", () => {
    picturesSuite(stage);
  });
  describe("the nearness", () => {
    nearnessSuite(stage);
  });
  describe("a copied call", () => {
    copyingSuite(stage);
  });
  describe("the docs", () => {
    readingSuite(stage);
  });
  describe("the reference", () => {
    referenceSuite(stage);
  });
  describe("for everyone", () => {
    everyoneSuite(stage);
  });
});
