// For Preact: import type {} from "ratchet-feedback/preact".
import type { HTMLAttributes } from "preact";
import type { RatchetFeedbackAttributes, RatchetFeedbackElement, RatchetFeedbackListeners } from "./ratchet-feedback.js";

type Html = HTMLAttributes<RatchetFeedbackElement>;

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "ratchet-feedback": Html & RatchetFeedbackAttributes & RatchetFeedbackListeners;
    }
  }
}
