// Sends the file NAME to the API at ADDRESS with the key KEY, in all ways; prints a JSON object of what came of it.
import { createReadStream, readFileSync } from "node:fs";
import OpenAI, { toFile } from "openai";

const [address, key, name] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: address, apiKey: key, maxRetries: 0 });
const purpose = "fine-tune";
const bytes = readFileSync(name);
const about = { bytes: bytes.length, filename: name, mime_type: "text/jsonl", purpose };
const refused = (call) => call.then(() => "taken", (error) => error);
const expires_after = { anchor: "created_at", seconds: 3600 };
const file = await openai.files.create({ file: createReadStream(name), purpose, expires_after });
const listed = [];
for await (const row of openai.files.list({ purpose })) listed.push(row.filename);
const content = await (await openai.files.content(file.id)).text();
const waited = await openai.files.waitForProcessing(file.id);
const deleted = await openai.files.delete(file.id);
const missing = await refused(openai.files.retrieve(file.id));
const bad = await refused(openai.files.create({ file: await toFile(Buffer.from("{}"), name), purpose }));
const upload = await openai.uploads.create(about);
const part_ids = [];
for (const data of [bytes.subarray(0, 500), bytes.subarray(500)]) {
  const part = await openai.uploads.parts.create(upload.id, { data: await toFile(data, "part") });
  part_ids.push(part.id);
}
const whole = await openai.uploads.complete(upload.id, { part_ids });
const cancelled = await openai.uploads.cancel((await openai.uploads.create(about)).id);
console.log(
  JSON.stringify({
    created: [file.bytes, file.purpose, file.status, file.expires_at - file.created_at],
    listed,
    content,
    waited: waited.status,
    deleted: deleted.deleted,
    missing: [missing.status, missing.param],
    bad: [bad.status, bad.code],
    uploaded: [whole.status, whole.file.bytes],
    cancelled: cancelled.status,
  }),
);
