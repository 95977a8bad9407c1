// gettext for scripts: marks strings for translation.  Pages are in English, so it returns the string.

export const gettext = (text) => text;
export const ngettext = (one, many, count) => (count === 1 ? one : many);

/** Replace each %(name)s in `text` by the value of that name. */
export function fill(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
