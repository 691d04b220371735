/* The demo page as its author would write it: gives the widgets their key and traces, and lists the events they send.
   ?key=pk_…, and where the page has no answers of its own ?trace=UUID once for each of its widgets. */

const LOGGED = 12;
const query = new URLSearchParams(location.search);
const widgets = [...document.querySelectorAll("ratchet-feedback")];
const traces = query.getAll("trace");

for (const widget of widgets) {
  if (!widget.hasAttribute("trace") && traces.length) widget.setAttribute("trace", traces.shift());
  if (query.has("key")) widget.setAttribute("public-key", query.get("key"));
  widget.closest("article").hidden = !widget.hasAttribute("trace") && query.has("trace");
}
document.getElementById("needs-key").hidden = query.has("key");

function describe({ type, detail }) {
  const given = detail.choice ?? detail.kind ?? ("value" in detail ? `${detail.scale} ${detail.value}` : "retracted");
  const parts = [type, given];
  if (detail.tags?.length) parts.push(detail.tags.join(", "));
  if (detail.status) parts.push(`HTTP ${detail.status}`);
  return parts.join(" · ");
}

for (const name of ["feedback", "sent", "queued", "error"]) {
  document.addEventListener(`ratchet-${name}`, (event) => {
    const line = document.createElement("li");
    line.textContent = describe(event);
    document.getElementById("log").prepend(line);
    document.querySelector(`#log li:nth-child(${LOGGED + 1})`)?.remove();
  });
}
