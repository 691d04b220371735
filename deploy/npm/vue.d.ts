// For Vue 3: import type {} from "ratchet-feedback/vue".
import type { DefineComponent, HTMLAttributes } from "vue";
import type { RatchetFeedbackAttributes, RatchetFeedbackDetail } from "./ratchet-feedback.js";

interface Listeners {
  onRatchetFeedback?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  onRatchetSent?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  onRatchetQueued?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  onRatchetError?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
}

declare module "vue" {
  interface GlobalComponents {
    "ratchet-feedback": DefineComponent<HTMLAttributes & RatchetFeedbackAttributes & Listeners>;
  }
}
