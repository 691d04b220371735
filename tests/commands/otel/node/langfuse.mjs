// A program that somebody else wrote: traced by Langfuse's SDK, whose address and keys alone were changed.
import { LangfuseClient } from "@langfuse/client";
import { observeOpenAI } from "@langfuse/openai";
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { propagateAttributes, startActiveObservation, startObservation } from "@langfuse/tracing";
import { NodeSDK } from "@opentelemetry/sdk-node";
import OpenAI from "openai";

const sdk = new NodeSDK({ spanProcessors: [new LangfuseSpanProcessor()] });
sdk.start();
const langfuse = new LangfuseClient();
await langfuse.api.projects.get();
const client = observeOpenAI(new OpenAI());
const tools = [{ type: "function", function: { name: "track", parameters: { type: "object", properties: {} } } }];
const ask = (messages, more = {}) => client.chat.completions.create({ model: "tiny", messages, ...more });

await ask([{ role: "system", content: "Be kind." }, { role: "user", content: "Good morning?" }]);
await startActiveObservation("app", async (app) => {
  await propagateAttributes({ sessionId: "talk-9" }, async () => {
    const asked = [{ role: "user", content: "Where is 4711?" }];
    const said = (await ask(asked, { tools })).choices[0].message;
    const track = startObservation("track", { input: { number: "4711" } }, { asType: "tool" });
    track.update({ output: "4711 is in Bonn" }).end();
    asked.push(said, { role: "tool", tool_call_id: said.tool_calls[0].id, content: "4711 is in Bonn" });
    await ask(asked, { tools });
  });
  langfuse.score.trace(app, { name: "user-feedback", value: 1, dataType: "BOOLEAN", comment: "nice" });
});
for await (const _ of await ask([{ role: "user", content: "Stream." }], { stream: true }));
const own = startObservation("own", { model: "tiny", input: "By hand?" }, { asType: "generation" });
own.update({ output: "Yes." }).end();
langfuse.score.observation(own, { name: "thumbs", value: 0, dataType: "BOOLEAN" });
await langfuse.flush();
await sdk.shutdown();
