/* Asks this site for JSON, and says in words why it did not come. */

import { compose } from "./words.js";

const SIGNED_OUT = gettext("You are signed out. Reload the page to sign in again.");

/** Why a response is not what was asked for. */
export async function reasonOf(response) {
  if (response.type === "opaqueredirect") return SIGNED_OUT;
  if (!response.headers.get("content-type")?.includes("json")) return compose(gettext("The server answered %(status)s. Reload the page to go on."), response);
  const { error, detail } = await response.json();
  return error?.message ?? error ?? detail ?? compose(gettext("The server answered %(status)s."), response);
}

/** The document at an address of this site. Throws an error whose message is for people. */
export async function ask(address, options = {}) {
  const response = await fetch(address, { ...options, headers: { Accept: "application/json" }, redirect: "manual" });
  const isDocument = response.ok && response.headers.get("content-type")?.includes("json");
  if (!isDocument) throw new Error(await reasonOf(response));
  return response.json();
}

/** Sends a form with its token. */
export function post(address, token, fields, signal) {
  const body = new FormData();
  body.set("csrfmiddlewaretoken", token);
  for (const [name, value] of fields) body.append(name, value);
  return ask(address, { method: "POST", body, signal });
}
