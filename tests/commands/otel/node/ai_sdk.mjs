// A program that somebody else wrote: the AI SDK of Vercel in its version 7, whose telemetry is a package of its own.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { OpenTelemetry } from "@ai-sdk/otel";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, isStepCount, registerTelemetry, streamText, tool } from "ai";
import { z } from "zod";

registerTelemetry(new OpenTelemetry());
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
const model = createOpenAICompatible({ name: "own", baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" })("tiny");
const telemetry = { isEnabled: true, functionId: "shop" };
const inputSchema = z.object({ number: z.string() });
const track = tool({ description: "Where a parcel is.", inputSchema, execute: async ({ number }) => `${number} is in Bonn` });

await generateText({ model, instructions: "Be kind.", prompt: "Good morning?", telemetry });
await generateText({ model, prompt: "Where is 4711?", stopWhen: isStepCount(4), tools: { track }, telemetry });
for await (const _ of streamText({ model, prompt: "Think and stream.", telemetry }).textStream);
await sdk.shutdown();
