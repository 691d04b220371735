// On a server, where nothing can be drawn, importing it does nothing.
if (globalThis.document) await import("./ratchet-feedback.js");
