// Open questions of all runs, with forms made from what they accept.

import { useState } from "preact/hooks";
import type { MadePass, Question } from "../api-types";
import { address, call, may, type Refusal } from "../lib/api";
import { Raw } from "../lib/json";
import { useLoad } from "../lib/load";
import { href } from "../lib/router";
import { count, plural } from "../lib/time";
import { Ago, At, Busy, Command, Copy, Dialog, Empty, Fact, Page, Problem, RunLink, Text } from "../parts/basics";
import { AnswerForm } from "../parts/schema-form";

export default function Inbox({ query }: { query: URLSearchParams }) {
  const run = query.get("run") ?? undefined;
  const questions = useLoad(`inbox ${run}`, async () => (run ? { ...(await call("GET /v1/runs/{run}/questions", { run })), next: null } : call("GET /v1/questions", { limit: 200 })), {
    live: (event) => /^(input|wait|run)\./.test(event.type),
  });
  const items = questions.data?.items ?? [];
  const [said, setSaid] = useState("");
  return (
    <Page title="Inbox" command={run ? `goldseam questions --run ${run}` : "goldseam questions"} json={run ? address("GET /v1/runs/{run}/questions", { run }) : address("GET /v1/questions")}>
      <p role="status">{said}</p>
      {run && <p><a href={href(["inbox"])}>Questions of all runs</a></p>}
      {questions.error && !questions.data && <Problem error={questions.error} back={<p><a href={href(["inbox"])}>Questions of all runs</a></p>} />}
      {!questions.data && !questions.error && <Busy />}
      {questions.data && items.length === 0 && (
        <Empty title="No open questions" command="goldseam ls --status waiting">A workflow asks a person with ctx.ask; the run then waits, without a time limit.</Empty>
      )}
      {questions.data && items.length > 0 && <p class="num">{plural(items.length, "question")}{questions.data.next ? " and more" : ""}</p>}
      <ul class="cards">
        {items.map((question) => <Asked key={`${question.run} ${question.path}`} question={question} answered={(text) => (setSaid(text), questions.again())} />)}
      </ul>
    </Page>
  );
}

function Asked({ question, answered }: { question: Question; answered(said: string): void }) {
  const [answer, setAnswer] = useState<string>();
  const [error, setError] = useState<Refusal>();
  const [busy, setBusy] = useState(false);
  return (
    <li class="card question">
      <p class="dim"><RunLink run={question.run} /> <Text value={question.workflow} /> · asked <Ago at={question.since} /></p>
      <p class="prompt-text"><Text value={question.prompt} /></p>
      {may("signal") && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (answer === undefined) return;
            setBusy(true);
            call("POST /v1/runs/{run}/questions/{question}/answer", { run: question.run, question: question.path }, { body: { answer: new Raw(answer), since: question.since } }).then(
              (done) => answered(`Answered ${question.path} of ${question.run} as event #${count(done.event)}.`),
              (thrown) => (setError(thrown), setBusy(false)),
            );
          }}
        >
          <AnswerForm form={question.form} change={setAnswer} />
          {error && <Problem error={error} />}
          <footer>
            <button type="submit" class="primary" disabled={busy || answer === undefined}>Answer</button>
            <PassButton question={question} />
          </footer>
        </form>
      )}
      <Command line={question.command} />
    </li>
  );
}

/** The address of the page that uses a pass. Browsers do not send the part behind the #. */
const linkOf = (made: MadePass) => `${location.origin}${href(["pass"])}#${encodeURIComponent(made.pass)}`;

/** Creates a pass: a link for a person without a key. */
function PassButton({ question }: { question: Question }) {
  const [made, setMade] = useState<MadePass>();
  const [error, setError] = useState<Refusal>();
  return (
    <>
      <button type="button" onClick={() => call("POST /v1/runs/{run}/passes", { run: question.run }, { body: { answer: question.path } }).then(setMade, setError)}>Create a pass</button>
      {error && <Problem error={error} />}
      {made && (
        <Dialog title="A pass for this question" close={() => setMade(undefined)}>
          <p>Its holder may answer this question once, without a key. It is shown only now.</p>
          <dl class="facts stacked">
            <Fact name="link for a person"><a class="token" href={linkOf(made)}>{linkOf(made)}</a> <Copy text={linkOf(made)} label="Copy the link" /></Fact>
            <Fact name="pass for a program"><code class="token">{made.pass}</code> <Copy text={made.pass} label="Copy the pass" /></Fact>
            <Fact name="callback"><code class="token">{made.callback}</code> <Copy text={made.callback} label="Copy the callback" /></Fact>
            <Fact name="expires"><At at={made.expires_at} /></Fact>
          </dl>
          <Command line={`goldseam pass create ${question.run} --answer ${question.path}`} />
        </Dialog>
      )}
    </>
  );
}
