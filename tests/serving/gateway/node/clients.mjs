// Asks the gateway at ADDRESS with the key KEY by each client; prints a JSON object: the client's call to what came of it.
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const [address, key] = process.argv.slice(2);
const model = "support-chat";
const messages = [{ role: "user", content: "hello" }];
const openai = new OpenAI({ baseURL: `${address}/v1`, apiKey: key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: address, apiKey: key, maxRetries: 0 });
const vercel = createOpenAI({ baseURL: `${address}/v1`, apiKey: key })(model);
const vercelAnthropic = createAnthropic({ baseURL: `${address}/v1`, apiKey: key })(model);
const track = tool({ inputSchema: z.object({ number: z.string() }), execute: async () => "it left" });

const calls = {
  "openai chat": async () => {
    const answer = await openai.chat.completions.create({ model, messages });
    return [answer.id, answer.choices[0].message.content];
  },
  "openai responses": async () => {
    const answer = await openai.responses.create({ model, input: "hello" });
    return [answer.id, answer.output_text];
  },
  "openai responses stream": async () => {
    const answer = await openai.responses.stream({ model, input: "hello" }).finalResponse();
    return [answer.id, answer.output_text];
  },
  "anthropic messages": async () => {
    const answer = await anthropic.messages.create({ model, messages, max_tokens: 20 });
    return [answer.id, answer.content[0].text];
  },
  "anthropic messages stream": async () => {
    const answer = await anthropic.messages.stream({ model, messages, max_tokens: 20 }).finalMessage();
    return [answer.id, answer.content.at(-1).text];
  },
  "vercel openai, two turns": async () => {
    const first = await generateText({ model: vercel, messages });
    const turns = [...messages, ...first.response.messages, { role: "user", content: "again" }];
    const second = await generateText({ model: vercel, messages: turns });
    return [second.response.id, second.text];
  },
  "vercel openai stream": async () => {
    const stream = streamText({ model: vercel, messages });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    return [(await stream.response).id, text];
  },
  "vercel openai tools": async () => {
    const options = { model: vercel, prompt: "call a tool", tools: { track }, stopWhen: stepCountIs(2) };
    const answer = await generateText(options);
    return [answer.response.id, answer.steps[0].toolResults[0].output];
  },
  "vercel anthropic tools": async () => {
    const options = { model: vercelAnthropic, prompt: "call a tool", tools: { track }, stopWhen: stepCountIs(2) };
    const answer = await generateText(options);
    return [answer.response.id, answer.steps[0].toolResults[0].output];
  },
};

const results = {};
for (const [name, call] of Object.entries(calls)) {
  results[name] = await call().catch((error) => [null, String(error)]);
}
console.log(JSON.stringify(results));
