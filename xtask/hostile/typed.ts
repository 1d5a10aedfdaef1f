// Starts, signals and finishes a run with fetch and the types that openapi-typescript generated.
import type { components, operations } from "./types";

type Schemas = components["schemas"];
type Operation = keyof operations;
type Body<O extends Operation> = operations[O] extends { requestBody: { content: { "application/json": infer B } } }
  ? B
  : never;
type Answer<O extends Operation> = operations[O] extends {
  responses: { 200: { content: { "application/json": infer A } } };
}
  ? A
  : never;

// Calls one operation; its name determines the types of the body and the response.
async function call<O extends Operation>(_: O, method: string, path: string, body?: Body<O>): Promise<Answer<O>> {
  const headers = { authorization: `Bearer ${process.env.GOLDSEAM_KEY}`, "content-type": "application/json" };
  const init: RequestInit = body === undefined ? { headers, method } : { headers, method, body: JSON.stringify(body) };
  const answer = await fetch(`${process.env.GOLDSEAM_URL}${path}`, init);
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer<O>;
}

async function main(): Promise<void> {
  const run = `typed-${crypto.randomUUID()}`;
  const queue = `q-${run}`;
  await call("start_run", "POST", "/v1/runs", { workflow: "greet", id: run, input: { name: "Ada" }, queue });

  // The worker waits for a signal, releases the run, and claims it again after the signal.
  const registration = { name: "typed", workflows: ["greet@1"], queues: [queue], slots: 1 };
  const { worker } = await call("register_worker", "POST", "/v1/workers", registration);
  const claim = async (): Promise<Schemas["Execution"]> => {
    for (let round = 0; round < 3; round += 1) {
      const wanted = { limit: 1, wait_ms: 10_000 };
      const claimed = await call("claim_executions", "POST", `/v1/workers/${worker}/claim`, wanted);
      const [execution] = claimed.executions;
      if (execution !== undefined) return execution;
    }
    throw new Error("nothing to claim");
  };
  const append = (execution: Schemas["Execution"], id: string, doings: Schemas["WorkerDoing"][]) =>
    call("append_to_execution", "POST", "/v1/executions/append", {
      token: execution.token,
      id,
      after: execution.end,
      doings,
    });

  const waiting = await append(await claim(), "wait", [
    { wait: { path: "go", ord: 0, signals: ["go"] } },
    { release: { reason: "unload" } },
  ]);
  if (waiting.outcome !== "over") throw new Error(`not released: ${waiting.outcome}`);

  await call("signal_run", "POST", `/v1/runs/${run}/signal`, { name: "go", payload: { cents: 4200 } });

  await append(await claim(), "end", [
    { check: { path: "go" } },
    { step_completed: { path: "charge", ord: 1, attempt: 1, output: "paid" } },
    { complete: { output: { greeted: "Ada" } } },
  ]);
  await call("remove_worker", "DELETE", `/v1/workers/${worker}`);

  const ending = await call("await_result", "GET", `/v1/runs/${run}/result?wait_ms=10000`);
  if (JSON.stringify(ending.output) !== '{"greeted":"Ada"}') throw new Error(JSON.stringify(ending));
  console.log(`run ${run} finished`);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
