// Answers to questions: a form made from what the question accepts.

import { useState } from "preact/hooks";
import type { Form } from "../api-types";
import { flaw, Raw, write } from "../lib/json";
import { Field, Text } from "./basics";

interface Property {
  name: string;
  schema: any;
  required: boolean;
}

/** The fields of a schema that a form can show: an object of plain values. */
export function properties(schema: any): Property[] | undefined {
  if (schema?.type !== "object" || !schema.properties) return undefined;
  const required: string[] = Array.isArray(schema.required) ? schema.required : [];
  const all = Object.entries<any>(schema.properties).map(([name, one]) => ({ name, schema: one, required: required.includes(name) }));
  const plain = all.every(({ schema: one }) => one?.enum || ["string", "integer", "number", "boolean"].includes(one?.type));
  return plain && schema.additionalProperties !== true ? all : undefined;
}

export interface AnswerProps {
  form: Form;
  /** The answer as JSON text; undefined while it is not complete. */
  change(json: string | undefined): void;
}

export function AnswerForm({ form, change }: AnswerProps) {
  if (form === "text") return <TextAnswer change={change} />;
  if (typeof form === "object" && form !== null && "choice" in form) return <Choice choices={form.choice} change={change} />;
  const schema: any = typeof form === "object" && form !== null && "schema" in form ? form.schema : undefined;
  const fields = schema && properties(schema);
  return fields ? <ObjectAnswer fields={fields} change={change} /> : <JsonAnswer schema={schema} change={change} />;
}

function TextAnswer({ change }: { change(json: string | undefined): void }) {
  return <Field label="Answer">{(id) => <textarea id={id} rows={3} onInput={(event) => change(event.currentTarget.value ? JSON.stringify(event.currentTarget.value) : undefined)} />}</Field>;
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

function JsonAnswer({ schema, change }: { schema: unknown; change(json: string | undefined): void }) {
  const [text, setText] = useState("");
  const wrong = text ? flaw(text) : undefined;
  return (
    <>
      <Field label="Answer (JSON)" {...(wrong ? { hint: wrong } : {})}>
        {(id) => (
          <textarea id={id} rows={5} spellcheck={false} value={text} aria-invalid={wrong !== undefined} onInput={(event) => {
            const next = event.currentTarget.value;
            setText(next);
            change(next && !flaw(next) ? next : undefined);
          }} />
        )}
      </Field>
      {schema !== undefined && <details><summary>Schema</summary><pre class="code-block">{JSON.stringify(schema, null, 2)}</pre></details>}
    </>
  );
}

function ObjectAnswer({ fields, change }: { fields: Property[]; change(json: string | undefined): void }) {
  const [values, setValues] = useState<Record<string, string | boolean>>({});
  const update = (name: string, value: string | boolean) => {
    const next = { ...values, [name]: value };
    setValues(next);
    const entries = fields.map(({ name: field, schema, required }) => [field, valueOf(schema, next[field], required)] as const);
    change(entries.some(([, made]) => made === null) ? undefined : write(Object.fromEntries(entries.filter(([, made]) => made !== undefined))));
  };
  return (
    <>
      {fields.map(({ name, schema, required }) =>
        schema.type === "boolean" ? (
          <label key={name} class="check">
            <input type="checkbox" checked={values[name] === true} onChange={(event) => update(name, event.currentTarget.checked)} /> <Text value={schema.title ?? name} />
          </label>
        ) : (
          <Field key={name} label={`${schema.title ?? name}${required ? "" : " (optional)"}`} {...(schema.description ? { hint: schema.description } : {})}>
            {(id) =>
              schema.enum ? (
                <select id={id} value={String(values[name] ?? "")} onChange={(event) => update(name, event.currentTarget.value)}>
                  <option value="">–</option>
                  {schema.enum.map((one: unknown) => <option key={String(one)} value={JSON.stringify(one)}>{String(one)}</option>)}
                </select>
              ) : (
                <input id={id} inputMode={schema.type === "string" ? "text" : "decimal"} value={String(values[name] ?? "")} onInput={(event) => update(name, event.currentTarget.value)} />
              )
            }
          </Field>
        ),
      )}
    </>
  );
}

/** A value of a field; undefined if it is left out, null if it is wrong. */
function valueOf(schema: any, given: string | boolean | undefined, required: boolean): unknown {
  if (schema.type === "boolean") return given === true;
  const text = String(given ?? "");
  if (text === "") return required ? (schema.type === "string" && !schema.enum ? null : null) : undefined;
  if (schema.enum) return new Raw(text);
  if (schema.type === "string") return text;
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? new Raw(text.trim()) : null;
}
