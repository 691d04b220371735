// For Svelte 5: import type {} from "ratchet-feedback/svelte".
import type { HTMLAttributes } from "svelte/elements";
import type { RatchetFeedbackAttributes, RatchetFeedbackElement, RatchetFeedbackListeners } from "./ratchet-feedback.js";

type Html = HTMLAttributes<RatchetFeedbackElement>;

declare module "svelte/elements" {
  interface SvelteHTMLElements {
    "ratchet-feedback": Html & RatchetFeedbackAttributes & RatchetFeedbackListeners;
  }
}
