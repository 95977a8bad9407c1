// The scripts' words in the language of the page.  The catalogue is a script of its own that sets
// window.gettext and its like before any module runs; without it everything stays in English.

export const gettext = window.gettext ?? ((text) => text);
export const ngettext = window.ngettext ?? ((one, many, count) => (count === 1 ? one : many));

/** `text` with its %(name)s replaced by the values of the same names. */
export function fill(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
