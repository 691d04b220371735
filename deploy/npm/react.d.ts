// For React 18 and 19: import type {} from "ratchet-feedback/react".
import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { RatchetFeedbackAttributes, RatchetFeedbackElement, RatchetFeedbackListeners } from "./ratchet-feedback.js";

type Html = DetailedHTMLProps<HTMLAttributes<RatchetFeedbackElement>, RatchetFeedbackElement>;

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "ratchet-feedback": Html & RatchetFeedbackAttributes & RatchetFeedbackListeners;
    }
  }
}
