// Runs a job of each of the METHODS at ADDRESS with KEY, asks what it made, and prints what became of them.
import { createReadStream } from "node:fs";
import { setTimeout } from "node:timers/promises";
import OpenAI from "openai";

const [address, key, methods] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: address, apiKey: key });
const results = {};
for (const [type, settings] of Object.entries(JSON.parse(methods))) {
  const file = await openai.files.create({ file: createReadStream(`${type}.jsonl`), purpose: "fine-tune" });
  const method = { type, [type]: settings };
  let job = await openai.fineTuning.jobs.create({ model: "tiny", training_file: file.id, suffix: type, method });
  while (!["succeeded", "failed", "cancelled"].includes(job.status)) {
    await setTimeout(500);
    job = await openai.fineTuning.jobs.retrieve(job.id);
  }
  const model = job.fine_tuned_model;
  const messages = [{ role: "user", content: "Which team is question 3 for?" }];
  const answer = model && (await openai.chat.completions.create({ model, messages, max_tokens: 4 }));
  results[type] = { status: job.status, error: job.error?.message ?? null, model, answered_by: answer?.model };
}
console.log(JSON.stringify(results));
