// Answers of transformers.js in Node or on a page, without a network.
export async function answers({ env, pipeline }, place, texts) {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = place;
  const found = {};
  for (const dtype of ['fp32', 'q8']) {
    const embed = await pipeline('feature-extraction', 'vectors', { dtype });
    const vectors = await embed(texts, { pooling: 'mean', normalize: true });
    const classify = await pipeline('text-classification', 'labels', { dtype });
    const labels = await classify(texts, { top_k: null });
    found[dtype] = { vectors: vectors.tolist(), labels };
  }
  return found;
}
