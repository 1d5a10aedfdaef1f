// For the holder of a pass: one question, or one signal, without a key.

import { useEffect, useState } from "preact/hooks";
import type { Form } from "../api-types";
import { call, Refusal } from "../lib/api";
import { Raw } from "../lib/json";
import { useLoad } from "../lib/load";
import { href } from "../lib/router";
import { At, Busy, Field, Problem, Text } from "../parts/basics";
import { AnswerForm } from "../parts/schema-form";
import { Seal } from "../parts/seal";

export default function Pass() {
  // The pass leaves the address, and with it the history of the browser.
  const [pass] = useState(() => decodeURIComponent(location.hash.slice(1)));
  useEffect(() => history.replaceState(null, "", href(["pass"])), []);
  const shown = useLoad(pass ? "pass" : undefined, () => call("GET /v1/pass", {}, { credential: pass }));
  const [answer, setAnswer] = useState<string>();
  const [name, setName] = useState("");
  const [error, setError] = useState<Refusal>();
  const [isDone, setDone] = useState(false);
  const found = shown.data;
  const form: Form = found?.question?.form ?? "any";
  return (
    <main class="lonely login" id="main">
      <Seal />
      <h1 tabIndex={-1}>{found?.question ? "A question for you" : "A pass"}</h1>
      {!pass && <p class="dim">This address had a pass, and the page removed it. Open the link again.</p>}
      {pass && !found && !shown.error && <Busy />}
      {shown.error && !found && <Problem error={shown.error} back={<p class="dim">A pass can be used once. Ask the person who sent it for another one.</p>} />}
      {found && !isDone && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (answer === undefined) return;
            call("POST /v1/pass", {}, { credential: pass, body: { payload: new Raw(answer), ...(name.trim() ? { by: name.trim() } : {}) } }).then(() => setDone(true), setError);
          }}
        >
          {found.question && <p class="prompt-text"><Text value={found.question.prompt} /></p>}
          {found.signal && <p>Sends the signal <code><Text value={found.signal} /></code>.</p>}
          <AnswerForm form={form} change={setAnswer} />
          <Field label="Your name (optional)" hint="It becomes part of the log.">{(id) => <input id={id} autocomplete="name" value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          {error && <Problem error={error} />}
          <footer><button type="submit" class="primary" disabled={answer === undefined}>{found.question ? "Answer" : "Send"}</button></footer>
          <p class="dim small-text">For run <span class="mono"><Text value={found.run} /></span>. Valid until <At at={found.expires_at} />.</p>
        </form>
      )}
      <div role="status">{isDone && <p class="said">Thank you. Your answer is recorded.</p>}</div>
    </main>
  );
}
