/* The text of an answer as the gateway streams it: server-sent events with OpenAI's chunks in them. */

const BROKEN = gettext("The connection broke before the answer was complete.");

/** Gives each piece of the text, and whether the limit of length has cut it off there. Throws an error whose message is for people where the answer breaks off. */
export async function* pieces(response) {
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const { error, choices } = JSON.parse(data);
    if (error) throw new Error(error.message);
    const { delta, finish_reason: end } = choices?.[0] ?? {}, isCut = end === "length";
    if (delta?.content || isCut) yield { text: delta?.content ?? "", isCut };
  }
  throw new Error(BROKEN);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let read; !(read = await reader.read()).done;) {
      const lines = (rest + read.value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6).trim();
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops listening stops the model
  }
}
