// Strings of the scripts, marked for translation.  Pages are in English, so each is its own text.

export const gettext = (text) => text;
export const ngettext = (one, many, count) => (count === 1 ? one : many);

/** `text` with its %(name)s replaced by the values of the same names. */
export function fill(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
