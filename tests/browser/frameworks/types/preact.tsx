/** @jsxImportSource preact */
import type {} from "ratchet-feedback/preact";

export const page = (
  <ratchet-feedback public-key="pk_…" trace={null} type="stars" tags={["Wrong"]} label-up="Yes" class="rating"
                    onratchet-sent={({ detail }) => console.log(detail.value?.toFixed())} />
);
// @ts-expect-error: there is no such type
export const unknown = <ratchet-feedback type="smiley" />;
