/* Words of the page's language. Django's catalog, which each page loads before its modules, gives `gettext` and `ngettext`. */

/** Puts `values` into the places of a text: compose("%(done)s of %(total)s", { done: 1, total: 2 }). */
export const compose = (text, values) => window.interpolate(text, values, true);
