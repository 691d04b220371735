import type {} from "ratchet-feedback/svelte";
import type { SvelteHTMLElements } from "svelte/elements";

type Props = SvelteHTMLElements["ratchet-feedback"];
export const page: Props = {
  "public-key": "pk_…", trace: null, tags: ["Wrong"], "onratchet-sent": ({ detail }) => detail.value,
};
// @ts-expect-error: there is no such type
export const unknown: Props = { type: "smiley" };
