export type RatchetFeedbackType = "thumbs" | "stars" | "score" | "pair" | "edit";
export type RatchetChoice = "left" | "right" | "tie" | "both_bad";

/** What is sent; after sending also what came back. */
export interface RatchetFeedbackDetail {
  trace: string;
  rater: string;
  token?: string;
  /** Of a rating. */
  scale?: "thumb" | "stars" | "score";
  value?: number;
  tags?: string[];
  notes?: string;
  /** Of a pair and of a correction. */
  kind?: "comparison" | "correction";
  other_trace?: string;
  other_token?: string;
  choice?: RatchetChoice;
  text?: string;
  rated_at?: Date | string;
  /** 0: the server could not be reached, or refuses this page. */
  status?: number;
  answer?: unknown;
}

export interface RatchetFeedbackElement extends HTMLElement {
  readonly type: string;
  readonly trace: string | null;
  readonly rater: string;
  readonly api: string;
  readonly value: number | null;
  /** Throws RangeError for what the type does not take. */
  rate(value: number, details?: { tags?: string[]; notes?: string }): Promise<void>;
  retract(): Promise<void>;
  reset(): void;
  flush(): Promise<void>;
}

declare global {
  interface HTMLElementTagNameMap {
    "ratchet-feedback": RatchetFeedbackElement;
  }
  interface DocumentEventMap {
    "ratchet-feedback": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-sent": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-queued": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-error": CustomEvent<RatchetFeedbackDetail>;
  }
}
