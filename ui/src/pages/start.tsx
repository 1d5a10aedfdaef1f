// Start a run.

import { useState } from "preact/hooks";
import { address, call, may, Refusal } from "../lib/api";
import { flaw, Raw } from "../lib/json";
import { useLoad } from "../lib/load";
import { runHref } from "../lib/router";
import { Command, Field, Page, Problem, quote, Text } from "../parts/basics";

/** Reads `key=value` lines. */
function tagsOf(text: string): Record<string, string> {
  const pairs = text.split(/[\n,]+/).map((line) => line.trim()).filter(Boolean).map((line) => line.split(/=(.*)/s));
  const wrong = pairs.find((pair) => pair.length < 2 || !pair[0]);
  if (wrong) throw new Error(`${wrong[0]} is not a tag; write key=value`);
  return Object.fromEntries(pairs.map(([key, value]) => [key!.trim(), value!.trim()]));
}

export default function Start({ query }: { query: URLSearchParams }) {
  const workflows = useLoad("workflows", () => call("GET /v1/workflows"), { live: (event) => event.type === "run.claimed" });
  const [form, setForm] = useState({ workflow: query.get("workflow") ?? "", id: "", input: "null", tags: "", priority: "0", queue: "" });
  const [error, setError] = useState<Refusal>();
  const [started, setStarted] = useState<string>();
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const wrong = flaw(form.input);
  const line = [
    `goldseam start ${quote(form.workflow || "WORKFLOW")}`,
    form.id && `--id ${quote(form.id)}`,
    `--input ${quote(form.input)}`,
    ...form.tags.split(/[\n,]+/).filter((tag) => tag.trim()).map((tag) => `--tag ${quote(tag.trim())}`),
    form.priority !== "0" && form.priority && `--priority ${form.priority}`,
    form.queue && `--queue ${quote(form.queue)}`,
  ].filter(Boolean).join(" ");
  const known = workflows.data?.items.map((one) => one.name) ?? [];
  const taken = workflows.data?.items.find((one) => one.name === form.workflow)?.queues;
  const untaken = taken && !taken.includes(form.queue || "default") ? taken : undefined;
  const submit = async (event: Event) => {
    event.preventDefault();
    setError(undefined);
    setStarted(undefined);
    try {
      const body = { workflow: form.workflow, input: new Raw(form.input), tags: tagsOf(form.tags), priority: Number(form.priority) || 0, id: form.id || undefined, queue: form.queue || undefined };
      setStarted((await call("POST /v1/runs", {}, { body })).run);
    } catch (thrown) {
      setError(thrown instanceof Refusal ? thrown : new Refusal({ detail: (thrown as Error).message, status: 1 }));
    }
  };
  return (
    <Page title="Start a run" command={line} json={address("GET /v1/workflows")}>
      {!may("start") && <Problem error={new Refusal({ status: 403, code: "GS0602", detail: "this key lacks the scope `start`", hint: "use a key with that scope: goldseam key create NAME --scope start" })} />}
      {may("start") && (
        <form class="card narrow" onSubmit={submit}>
          <Field label="Workflow" hint={known.length ? `Live nodes have: ${known.join(", ")}` : workflows.data ? "No live node has a workflow: a run would wait until one has." : ""}>
            {(id) => <input id={id} list="known" required value={form.workflow} onInput={set("workflow")} />}
          </Field>
          <datalist id="known">{known.map((name) => <option key={name} value={name} />)}</datalist>
          {untaken && <p class="warn-text">No live node with <Text value={form.workflow} /> takes queue <Text value={form.queue || "default"} />; they take <Text value={untaken.join(", ")} />.</p>}
          {form.workflow && workflows.data && !known.includes(form.workflow) && <p class="warn-text">No live node has <Text value={form.workflow} /> now.</p>}
          <Field label="Input (JSON)" {...(wrong ? { hint: wrong } : {})}>
            {(id) => <textarea id={id} rows={8} spellcheck={false} value={form.input} aria-invalid={wrong !== undefined} onInput={set("input")} />}
          </Field>
          <div class="row">
            <Field label="Id (optional)" hint="The same id is always the same run.">{(id) => <input id={id} value={form.id} onInput={set("id")} />}</Field>
            <Field label="Priority">{(id) => <input id={id} type="number" value={form.priority} onInput={set("priority")} />}</Field>
            <Field label="Queue (optional)">{(id) => <input id={id} value={form.queue} onInput={set("queue")} />}</Field>
          </div>
          <Field label="Tags (optional)" hint="key=value, one per line">{(id) => <textarea id={id} rows={2} value={form.tags} onInput={set("tags")} />}</Field>
          {error && <Problem error={error} />}
          <footer><button type="submit" class="primary" disabled={wrong !== undefined || !form.workflow}>Start</button></footer>
          <div role="status">{started && <p class="said">Started <a href={runHref(started)}>{started}</a>.</p>}</div>
        </form>
      )}
      {started && <Command line={`goldseam watch ${started}`} />}
    </Page>
  );
}
