// JSON without losses: numbers keep their text, and payloads keep their whole text.

/** A number that JavaScript would change, as it was written. */
export class ExactNumber {
  constructor(readonly source: string) {}
  toString(): string {
    return this.source;
  }
  toJSON(): number {
    return Number(this.source);
  }
}

/** JSON of a user, exactly as the server sent it. */
export class Raw {
  private parsed: unknown;
  private isParsed = false;
  constructor(readonly text: string) {}
  /** The value, with exact numbers. */
  get value(): any {
    if (!this.isParsed) {
      this.parsed = parse(this.text, NONE);
      this.isParsed = true;
    }
    return this.parsed;
  }
  toString(): string {
    return this.text;
  }
}

const NONE: ReadonlySet<string> = new Set();
/** Fields that hold JSON of users. */
export const PAYLOADS: ReadonlySet<string> = new Set(["input", "output", "data", "payload", "result", "details", "attributes", "answer"]);
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Parses JSON. The values of the fields in `raw` become `Raw`. */
export function parse(text: string, raw: ReadonlySet<string> = NONE): any {
  let at = 0;

  const fail = (): never => {
    throw new SyntaxError(`not JSON at character ${at + 1}`);
  };
  const space = () => {
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === 32 || code === 10 || code === 13 || code === 9) at++;
      else return;
    }
  };
  const string = (): string => {
    const from = at;
    let end = text.indexOf('"', at + 1);
    // A quote behind an odd number of backslashes is part of the string.
    while (end > 0 && text.charCodeAt(end - 1) === 92 && isEscaped(text, end, from)) end = text.indexOf('"', end + 1);
    if (end < 0) fail();
    at = end + 1;
    const inside = text.slice(from + 1, end);
    return inside.includes("\\") ? JSON.parse(text.slice(from, at)) : inside;
  };
  const number = (): unknown => {
    const from = at;
    let code = text.charCodeAt(at);
    if (code === 45) code = text.charCodeAt(++at);
    const first = at;
    while (code >= 48 && code <= 57) code = text.charCodeAt(++at);
    // Whole numbers of up to 15 digits are exact.
    const isWhole = code !== 46 && code !== 101 && code !== 69;
    if (isWhole && at > first && at - first <= 15 && (at - first === 1 || text.charCodeAt(first) !== 48) && from === first) return Number(text.slice(from, at));
    NUMBER.lastIndex = from;
    const source = NUMBER.exec(text)?.[0];
    if (source === undefined) return fail();
    at = from + source.length;
    const value = Number(source);
    return String(value) === source ? value : new ExactNumber(source);
  };
  const skip = (): Raw => {
    const from = at;
    let depth = 0;
    do {
      space();
      const letter = text[at];
      if (letter === '"') string();
      else if (letter === "{" || letter === "[") (depth++, at++);
      else if (letter === "}" || letter === "]") (depth--, at++);
      else if (letter === "," || letter === ":") at++;
      else if (letter === undefined) fail();
      else while (at < text.length && !'{}[],:" \n\r\t'.includes(text[at]!)) at++;
    } while (depth > 0);
    return new Raw(text.slice(from, at));
  };
  const word = (meaning: unknown, spelt: string): unknown => {
    if (!text.startsWith(spelt, at)) fail();
    at += spelt.length;
    return meaning;
  };
  const value = (): unknown => {
    space();
    switch (text.charCodeAt(at)) {
      case 34:
        return string();
      case 123:
        return object();
      case 91:
        return array();
      case 116:
        return word(true, "true");
      case 102:
        return word(false, "false");
      case 110:
        return word(null, "null");
      default:
        return number();
    }
  };
  const object = (): Record<string, unknown> => {
    const made: Record<string, unknown> = {};
    at++;
    space();
    if (text[at] === "}") return (at++, made);
    for (;;) {
      space();
      if (text[at] !== '"') fail();
      const name = string();
      space();
      if (text[at++] !== ":") fail();
      space();
      const held = raw.has(name) ? (text.startsWith("null", at) ? value() : skip()) : value();
      if (name === "__proto__") Object.defineProperty(made, name, { value: held, enumerable: true });
      else made[name] = held;
      space();
      const next = text[at++];
      if (next === "}") return made;
      if (next !== ",") fail();
    }
  };
  const array = (): unknown[] => {
    const made: unknown[] = [];
    at++;
    space();
    if (text[at] === "]") return (at++, made);
    for (;;) {
      made.push(value());
      space();
      const next = text[at++];
      if (next === "]") return made;
      if (next !== ",") fail();
    }
  };

  const made = value();
  space();
  if (at < text.length) fail();
  return made;
}

function isEscaped(text: string, quote: number, from: number): boolean {
  let slashes = 0;
  for (let at = quote - 1; at > from && text.charCodeAt(at) === 92; at--) slashes++;
  return slashes % 2 === 1;
}

/** Indents JSON text. Every string and number stays as it is. */
export function pretty(text: string): string {
  const out: string[] = [];
  let depth = 0;
  let at = 0;
  const line = () => out.push("\n", "  ".repeat(depth));
  while (at < text.length) {
    const letter = text[at]!;
    if (letter === '"') {
      const from = at++;
      while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      out.push(text.slice(from, ++at));
    } else if (letter === "{" || letter === "[") {
      let next = at + 1;
      while (" \n\r\t".includes(text[next] ?? "x")) next++;
      if (text[next] === "}" || text[next] === "]") {
        out.push(letter, text[next]!);
        at = next + 1;
      } else {
        depth++;
        at++;
        out.push(letter);
        line();
      }
    } else if (letter === "}" || letter === "]") {
      depth = Math.max(0, depth - 1);
      line();
      out.push(letter);
      at++;
    } else if (letter === ",") {
      out.push(letter);
      line();
      at++;
    } else if (letter === ":") {
      out.push(": ");
      at++;
    } else if (" \n\r\t".includes(letter)) {
      at++;
    } else {
      const from = at;
      while (at < text.length && !'{}[],:" \n\r\t'.includes(text[at]!)) at++;
      out.push(text.slice(from, at));
    }
  }
  return out.join("");
}

/** Returns why a text is not JSON; undefined if it is. */
export function flaw(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return String((error as Error).message);
  }
}

/** Writes a request body. `Raw` values are copied as they are. */
export function write(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (value instanceof ExactNumber) return value.source;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).filter(([, held]) => held !== undefined);
    return `{${fields.map(([name, held]) => `${JSON.stringify(name)}:${write(held)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
