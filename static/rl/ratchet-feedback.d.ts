export type RatchetFeedbackType = "thumbs" | "stars" | "score" | "pair" | "edit" | "choice";
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
  /** Of a pair and of a correction, as of a choice that is not the answer. */
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

/** What an attribute is set from. Nothing, null and false take it away. */
export type RatchetText = string | number | false | null | undefined;

/** The attributes, as frameworks with types want them. */
export interface RatchetFeedbackAttributes {
  "public-key"?: RatchetText;
  trace?: RatchetText;
  "other-trace"?: RatchetText;
  token?: RatchetText;
  "other-token"?: RatchetText;
  type?: RatchetFeedbackType | null;
  answer?: RatchetText;
  "other-answer"?: RatchetText;
  values?: RatchetText | readonly string[];
  tags?: RatchetText | readonly string[];
  rater?: RatchetText;
  api?: RatchetText;
  [text: `label-${string}`]: RatchetText;
}

/** Listeners, where an event is set as `on` and its name: React 19, Preact, Svelte 5. */
export interface RatchetFeedbackListeners {
  "onratchet-feedback"?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  "onratchet-sent"?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  "onratchet-queued"?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
  "onratchet-error"?: (event: CustomEvent<RatchetFeedbackDetail>) => void;
}

export interface RatchetFeedbackElement extends HTMLElement {
  get publicKey(): string | null;
  set publicKey(value: RatchetText);
  get trace(): string | null;
  set trace(value: RatchetText);
  get otherTrace(): string | null;
  set otherTrace(value: RatchetText);
  get token(): string | null;
  set token(value: RatchetText);
  get otherToken(): string | null;
  set otherToken(value: RatchetText);
  /** `thumbs` if it is not set. */
  get type(): string;
  set type(value: RatchetText);
  get answer(): string | null;
  set answer(value: RatchetText);
  get otherAnswer(): string | null;
  set otherAnswer(value: RatchetText);
  get values(): string | null;
  set values(value: RatchetText | readonly string[]);
  get tags(): string | null;
  set tags(value: RatchetText | readonly string[]);
  /** The name of this browser if it is not set. */
  get rater(): string;
  set rater(value: RatchetText);
  /** Where the site is: by default where the module came from. */
  get api(): string;
  set api(value: RatchetText);
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
  interface HTMLElementEventMap {
    "ratchet-feedback": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-sent": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-queued": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-error": CustomEvent<RatchetFeedbackDetail>;
  }
  interface DocumentEventMap {
    "ratchet-feedback": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-sent": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-queued": CustomEvent<RatchetFeedbackDetail>;
    "ratchet-error": CustomEvent<RatchetFeedbackDetail>;
  }
}
