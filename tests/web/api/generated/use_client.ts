// Uses the types that were generated into schema.d.ts: URL, KEY and the number of a run; prints what came.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

const [url, key, run] = (globalThis as any).process.argv.slice(2) as string[];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
const stored = await client.POST("/api/v1/traces/", {
  body: { agent: "support-chat", prompt: "Hello?", response: "Hello." },
});
if (!stored.data || !("id" in stored.data)) throw new Error(JSON.stringify(stored.error));
const rating = { kind: "rating", trace: stored.data.id, rater: "customer-1", scale: "thumb", value: 1 } as const;
const rated = await client.POST("/api/v1/feedback/", { body: rating });
const traces = await client.GET("/api/v1/traces/");
const feedback = await client.GET("/api/v1/feedback/");
const training = await client.GET("/api/v1/runs/{id}/", { params: { path: { id: Number(run) } } });
console.log(
  JSON.stringify({
    responses: traces.data?.results.map((trace) => trace.response),
    values: feedback.data?.results.map((event) => event.value),
    rated: rated.data && "normalised" in rated.data ? rated.data.normalised : rated.error,
    run: training.data?.state,
  }),
);
