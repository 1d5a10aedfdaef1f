// Answers to questions: a form made from what the question accepts.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Form } from "../api-types";
import { ExactNumber, flaw, Raw, write } from "../lib/json";
import { Field, Text } from "./basics";

export interface AnswerProps {
  form: Form;
  /** The answer as JSON text; undefined while it is not complete. */
  change(json: string | undefined): void;
}

export function AnswerForm({ form, change }: AnswerProps) {
  if (form === "text") return <TextAnswer change={change} />;
  if (typeof form === "object" && form !== null && "choice" in form) return <Choice choices={form.choice} change={change} />;
  const given: unknown = typeof form === "object" && form !== null && "schema" in form ? form.schema : {};
  const schema = given instanceof Raw ? given.value : given;
  return (
    <>
      <Value schema={schema} root={schema} label="Answer" required depth={0} change={(made) => change(made ?? undefined)} />
      {schema && Object.keys(schema).length > 0 && (
        <details>
          <summary>Schema</summary>
          <pre class="code-block">{JSON.stringify(schema, null, 2)}</pre>
        </details>
      )}
    </>
  );
}

function TextAnswer({ change }: { change(json: string | undefined): void }) {
  return <Field label="Answer">{(id) => <textarea id={id} class="words" rows={3} onInput={(event) => change(event.currentTarget.value ? JSON.stringify(event.currentTarget.value) : undefined)} />}</Field>;
}

function Choice({ choices, change }: { choices: string[]; change(json: string | undefined): void }) {
  const [name] = useState(`c${Math.random()}`);
  return (
    <fieldset class="choice">
      <legend>Answer</legend>
      {choices.map((choice) => (
        <label key={choice} class="check">
          <input type="radio" name={name} onChange={() => change(JSON.stringify(choice))} /> <Text value={choice} />
        </label>
      ))}
    </fieldset>
  );
}

/** JSON text; undefined if the value is left out, null if it is incomplete or wrong. */
type Made = string | undefined | null;

interface ValueProps {
  schema: any;
  /** The whole schema, for references into it. */
  root: any;
  label: string;
  required: boolean;
  depth: number;
  change(made: Made): void;
}

const DEPTH_MAX = 6;

/** Follows a reference such as #/$defs/address. */
function resolve(schema: any, root: any): any {
  for (let hops = 0; hops < 8 && typeof schema?.$ref === "string"; hops++) {
    if (!schema.$ref.startsWith("#/")) return schema;
    schema = schema.$ref.slice(2).split("/").reduce((at: any, part: string) => at?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  }
  return schema;
}

/** The kind of control for a schema; "json" for what has none. */
function kindOf(schema: any): "enum" | "boolean" | "text" | "number" | "object" | "array" | "json" {
  if (typeof schema !== "object" || schema === null) return "json";
  if (Array.isArray(schema.enum)) return "enum";
  if (schema.const !== undefined || schema.oneOf || schema.anyOf || schema.allOf || schema.not || schema.if) return "json";
  if (schema.type === "object" && schema.properties && schema.additionalProperties !== true && !schema.patternProperties) return "object";
  if (schema.type === "array" && schema.items && !Array.isArray(schema.items)) return "array";
  if (schema.type === "string") return "text";
  if (schema.type === "integer" || schema.type === "number") return "number";
  return schema.type === "boolean" ? "boolean" : "json";
}

function Value(props: ValueProps) {
  const schema = resolve(props.schema, props.root);
  const kind = props.depth > DEPTH_MAX ? "json" : kindOf(schema);
  const own = { ...props, schema, label: String(schema?.title ?? props.label) };
  if (kind === "object") return <ObjectValue {...own} />;
  if (kind === "array") return <ArrayValue {...own} />;
  if (kind === "boolean") return <BooleanValue {...own} />;
  return <LineValue {...own} kind={kind} />;
}

const shown = (value: unknown): string => (value === undefined ? "" : typeof value === "string" ? value : value instanceof ExactNumber ? value.source : JSON.stringify(value));
const INPUT_TYPE: Record<string, "date" | "email" | "url" | "time"> = { date: "date", email: "email", uri: "url", time: "time" };
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Returns what is wrong with a text for a schema. */
function wrongOf(schema: any, kind: string, text: string): string | undefined {
  const n = Number(text);
  if (kind === "json") return flaw(text);
  if (kind === "number") {
    if (!NUMBER.test(text.trim())) return "not a number";
    if (schema.type === "integer" && !/^-?\d+$/.test(text.trim())) return "not a whole number";
    if (n < Number(shown(schema.minimum) || -Infinity)) return `at least ${shown(schema.minimum)}`;
    if (n > Number(shown(schema.maximum) || Infinity)) return `at most ${shown(schema.maximum)}`;
  }
  if (kind === "text") {
    const length = [...text].length;
    if (length < (schema.minLength ?? 0)) return `at least ${schema.minLength} characters`;
    if (length > (schema.maxLength ?? Infinity)) return `at most ${schema.maxLength} characters`;
  }
  return undefined;
}

/** A value in one control: a text, a number, a choice, or JSON. */
function LineValue({ schema, label, required, change, kind }: ValueProps & { kind: string }) {
  const [text, setText] = useState(kind === "enum" ? (schema.default === undefined ? "" : write(schema.default)) : shown(schema?.default));
  const isEmpty = text === "";
  const wrong = isEmpty ? undefined : wrongOf(schema, kind, text);
  useEffect(() => {
    if (isEmpty) change(required ? null : undefined);
    else if (wrong) change(null);
    else change(kind === "text" ? JSON.stringify(text) : text.trim());
  }, [text]);
  const hint = wrong ?? schema?.description;
  const input = { value: text, "aria-invalid": wrong !== undefined, onInput: (event: { currentTarget: { value: string } }) => setText(event.currentTarget.value) };
  return (
    <Field label={`${label}${kind === "json" ? " (JSON)" : ""}${required ? "" : " (optional)"}`} {...(hint ? { hint: String(hint) } : {})}>
      {(id) =>
        kind === "enum" ? (
          <select id={id} value={text} onChange={(event) => setText(event.currentTarget.value)}>
            <option value="">choose…</option>
            {schema.enum.map((one: unknown) => <option key={write(one)} value={write(one)}>{shown(one)}</option>)}
          </select>
        ) : kind === "json" || (kind === "text" && (schema.maxLength ?? 0) > 200) ? (
          <textarea id={id} rows={4} spellcheck={kind === "text"} class={kind === "text" ? "words" : ""} {...input} />
        ) : (
          <input id={id} {...({ type: INPUT_TYPE[schema.format] ?? "text" } as object)} inputMode={kind === "number" ? "decimal" : "text"} {...input} />
        )
      }
    </Field>
  );
}

function BooleanValue({ schema, label, change }: ValueProps) {
  const [on, setOn] = useState(schema.default === true);
  useEffect(() => change(String(on)), [on]);
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(event) => setOn(event.currentTarget.checked)} /> <Text value={label} />
      {schema.description && <span class="dim small-text"><Text value={String(schema.description)} /></span>}
    </label>
  );
}

/** The fields of an object. An optional object that is empty is left out. */
function ObjectValue({ schema, root, label, required, depth, change }: ValueProps) {
  const needed: string[] = Array.isArray(schema.required) ? schema.required : [];
  const names = Object.keys(schema.properties);
  const made = useRef(new Map<string, Made>());
  const update = (name: string, value: Made) => {
    made.current.set(name, value);
    const all = names.map((one) => [one, made.current.get(one)] as const);
    const given = all.filter(([, one]) => one !== undefined && one !== null);
    const isUntouched = !required && given.every(([one]) => resolve(schema.properties[one], root)?.type === "boolean");
    if (all.some(([, one]) => one === null)) change(isUntouched ? undefined : null);
    else if (isUntouched && given.length === 0) change(undefined);
    else change(write(Object.fromEntries(given.map(([one, json]) => [one, new Raw(json!)]))));
  };
  useEffect(() => {
    if (names.length === 0) change("{}");
  }, []);
  const fields = names.map((name) => (
    <Value key={name} schema={schema.properties[name]} root={root} label={name} required={needed.includes(name)} depth={depth + 1} change={(value) => update(name, value)} />
  ));
  if (depth === 0) return <>{fields}</>;
  return (
    <fieldset class="group">
      <legend><Text value={`${label}${required ? "" : " (optional)"}`} /></legend>
      {fields}
    </fieldset>
  );
}

/** A list whose items are added and removed. */
function ArrayValue({ schema, root, label, required, depth, change }: ValueProps) {
  const least = Number(schema.minItems ?? 0);
  const most = Number(schema.maxItems ?? 100);
  const [items, setItems] = useState<number[]>(() => Array.from({ length: least }, (_, n) => n));
  const next = useRef(least);
  const made = useRef(new Map<number, Made>());
  const report = (present: number[]) => {
    const all = present.map((id) => made.current.get(id));
    if (all.some((one) => one === undefined || one === null)) change(null);
    else if (all.length === 0 && !required) change(undefined);
    else change(`[${all.join(",")}]`);
  };
  useEffect(() => report(items), [items]);
  return (
    <fieldset class="group">
      <legend><Text value={`${label}${required ? "" : " (optional)"}`} /></legend>
      {items.map((id, at) => (
        <div key={id} class="array-item">
          <Value schema={schema.items} root={root} label={`${label} ${at + 1}`} required depth={depth + 1} change={(value) => (made.current.set(id, value), report(items))} />
          {items.length > least && (
            <button type="button" class="quiet small" aria-label={`Remove ${label} ${at + 1}`} onClick={() => setItems(items.filter((one) => one !== id))}>
              Remove
            </button>
          )}
        </div>
      ))}
      {items.length < most && (
        <button type="button" class="small" onClick={() => setItems([...items, next.current++])}>
          Add to {label}
        </button>
      )}
    </fieldset>
  );
}
