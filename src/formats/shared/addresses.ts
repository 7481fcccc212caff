/** The addresses of models, which several formats share. */

/**
 * Tells whether the end of an address names a model. It does not if it ends in a method of a model, such as `:countTokens`. Any other
 * colon belongs to the model's name.
 */
export const isModelAddress = (wildcardPath: string): boolean =>
  wildcardPath !== "" &&
  !/:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/.test(wildcardPath);
