// Asks AGENT of the gateway at ADDRESS with the key KEY by each client; prints what came of each call as a line of JSON.
import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { z } from "zod";

const [address, key, model] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: `${address}/v1`, apiKey: key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: address, apiKey: key, maxRetries: 0 });
const said = (content) => [{ role: "user", content }];

const openaiCalls = {
  "`chat.completions.create`": async (question) => {
    const answer = await openai.chat.completions.create({ model, messages: said(question) });
    return [answer.id, answer.choices[0].message.content];
  },
  "`responses.create`": async (question) => {
    const answer = await openai.responses.create({ model, input: question });
    return [answer.id, answer.output_text];
  },
  "`responses.stream`": async (question) => {
    const answer = await openai.responses.stream({ model, input: question }).finalResponse();
    return [answer.id, answer.output_text];
  },
};
const anthropicCalls = {
  "`messages.create`": async (question) => {
    const answer = await anthropic.messages.create({ model, messages: said(question), max_tokens: 20 });
    return [answer.id, answer.content[0].text];
  },
  "`messages.stream`": async (question) => {
    const answer = await anthropic.messages.stream({ model, messages: said(question), max_tokens: 20 }).finalMessage();
    return [answer.id, answer.content.at(-1).text];
  },
};

async function vercelCalls(ai, atOpenai, atAnthropic) {
  const { generateText, stepCountIs, streamText, tool } = await import(ai);
  const options = { baseURL: `${address}/v1`, apiKey: key };
  const byOpenai = (await import(atOpenai)).createOpenAI(options)(model);
  const byAnthropic = (await import(atAnthropic)).createAnthropic(options)(model);
  const track = tool({ inputSchema: z.object({ number: z.string() }), execute: async () => "it left" });
  const loop = (chosen) => async (prompt) => {
    const answer = await generateText({ model: chosen, prompt, tools: { track }, stopWhen: stepCountIs(2) });
    return [answer.response.id, answer.text];
  };
  return {
    "`createOpenAI`, two turns": async (question) => {
      const first = await generateText({ model: byOpenai, messages: said("hello") });
      const messages = [...said("hello"), ...first.response.messages, ...said(question)];
      const second = await generateText({ model: byOpenai, messages });
      return [second.response.id, second.text];
    },
    "`createOpenAI`, stream": async (question) => {
      const stream = streamText({ model: byOpenai, messages: said(question) });
      let text = "";
      for await (const piece of stream.textStream) text += piece;
      return [(await stream.response).id, text];
    },
    "`createOpenAI`, a tool": loop(byOpenai),
    "`createAnthropic`, a tool": loop(byAnthropic),
  };
}

const clients = [
  ["openai (Node)", "openai", openaiCalls, "`id`"],
  ["@anthropic-ai/sdk (Node)", "@anthropic-ai/sdk", anthropicCalls, "`id`"],
  ["Vercel's SDK (`ai`)", "ai", await vercelCalls("ai", "@ai-sdk/openai", "@ai-sdk/anthropic"), "`response.id`"],
  ["Vercel's SDK (`ai`)", "ai-7", await vercelCalls("ai-7", "openai-for-ai-7", "anthropic-for-ai-7"), "`response.id`"],
];
for (const [client, name, calls, by] of clients) {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  for (const [call, ask] of Object.entries(calls)) {
    const question = `${call.endsWith("a tool") ? "call a tool" : "hello"} # ${client} ${version} ${call}`;
    const found = { client, version, call, by, question };
    try {
      [found.id, found.answer] = await ask(question);
    } catch (error) {
      found.error = String(error);
    }
    console.log(JSON.stringify(found));
  }
}
