import type {} from "ratchet-feedback/vue";
import type { GlobalComponents } from "vue";

type Props = InstanceType<GlobalComponents["ratchet-feedback"]>["$props"];
export const page: Props = { "public-key": "pk_…", trace: null, tags: ["Wrong"], onRatchetSent: ({ detail }) => detail.value };
// @ts-expect-error: there is no such type
export const unknown: Props = { type: "smiley" };
