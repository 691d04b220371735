/** @jsxImportSource react */
import type {} from "ratchet-feedback/react";

export const page = (
  <ratchet-feedback public-key="pk_…" trace={null} type="stars" tags={["Wrong"]} label-up="Yes" className="rating"
                    onratchet-sent={({ detail }) => console.log(detail.value?.toFixed())} />
);
// @ts-expect-error: there is no such type
export const unknown = <ratchet-feedback type="smiley" />;

const element = document.querySelector("ratchet-feedback");
if (element) element.tags = ["Wrong"];
element?.addEventListener("ratchet-error", ({ detail }) => console.log(detail.status));
// @ts-expect-error: rate() sets it
if (element) element.value = 1;
