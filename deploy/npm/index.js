// On a server, where nothing can be drawn, importing it does nothing.
import "./ratchet-feedback.js";
