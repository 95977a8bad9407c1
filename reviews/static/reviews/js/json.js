// JSON that keeps whole numbers whole: those beyond 2^53 stay exact as BigInt.

/** Parse `text`; throws SyntaxError. */
export function parse(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" &&
    !Number.isSafeInteger(value) &&
    context?.source &&
    /^-?\d+$/.test(context.source)
      ? BigInt(context.source)
      : value,
  );
}

/** `value` as JSON with `indent` spaces. */
export function stringify(value, indent = 2) {
  const exact = (key, item) => {
    if (typeof item !== "bigint") return item;
    return JSON.rawJSON ? JSON.rawJSON(String(item)) : Number(item);
  };
  return JSON.stringify(value, exact, indent);
}

export const isObject = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The parts of a JSON pointer, unescaped; "" is the whole value. */
export function pointerParts(pointer) {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

const escapePart = (part) => String(part).replaceAll("~", "~0").replaceAll("/", "~1");

/** The value at `pointer`, or undefined. */
export function at(value, pointer) {
  let here = value;
  for (const part of pointerParts(pointer)) {
    if (here === null || typeof here !== "object" || !Object.hasOwn(here, part)) return undefined;
    here = here[part];
  }
  return here;
}

/** A pointer as readable text, `options.sizes[0]`, like the server's path_text. */
export function dotted(pointer) {
  return pointerParts(pointer).reduce(
    (text, part) => (/^\d+$/.test(part) ? `${text}[${part}]` : text ? `${text}.${part}` : part),
    "",
  );
}

/** Paths at which two JSON values differ: [{path, before, after}], undefined where one has nothing. */
export function differences(before, after, path = "") {
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) =>
      differences(
        Object.hasOwn(before, key) ? before[key] : undefined,
        Object.hasOwn(after, key) ? after[key] : undefined,
        `${path}/${escapePart(key)}`,
      ),
    );
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((item, index) => differences(item, after[index], `${path}/${index}`));
  }
  const same = before === undefined || after === undefined ? before === after : stringify(before) === stringify(after);
  return same ? [] : [{ path, before, after }];
}
