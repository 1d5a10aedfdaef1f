// Starts, signals and finishes a run with the SDK that @hey-api/openapi-ts generated.
import {
  appendToExecution,
  awaitResult,
  claimExecutions,
  registerWorker,
  removeWorker,
  signalRun,
  startRun,
  type Execution,
  type WorkerDoing,
} from "./sdk/index";
import { client } from "./sdk/client.gen";

client.setConfig({
  baseUrl: process.env.GOLDSEAM_URL as `http://${string}`,
  auth: () => process.env.GOLDSEAM_KEY,
});

// Returns the response, or throws the problem.
async function good<T>(call: Promise<{ data: T; error?: unknown }>): Promise<NonNullable<T>> {
  const { data, error } = await call;
  if (error !== undefined || data === undefined || data === null) throw new Error(JSON.stringify(error));
  return data;
}

async function main(): Promise<void> {
  const run = `sdk-${crypto.randomUUID()}`;
  const queue = `q-${run}`;
  await good(startRun({ body: { workflow: "greet", id: run, input: { name: "Ada" }, queue } }));

  // The worker waits for a signal, releases the run, and claims it again after the signal.
  const { worker } = await good(
    registerWorker({ body: { name: "sdk", workflows: ["greet@1"], queues: [queue], slots: 1 } }),
  );
  const claim = async (): Promise<Execution> => {
    for (let round = 0; round < 3; round += 1) {
      const claimed = await good(claimExecutions({ path: { worker }, body: { limit: 1, wait_ms: 10_000 } }));
      const [execution] = claimed.executions;
      if (execution !== undefined) return execution;
    }
    throw new Error("nothing to claim");
  };
  const append = (execution: Execution, id: string, doings: WorkerDoing[]) =>
    good(appendToExecution({ body: { token: execution.token, id, after: execution.end, doings } }));

  const first = await claim();
  const waiting = await append(first, "wait", [
    { wait: { path: "go", ord: 0, signals: ["go"] } },
    { release: { reason: "unload" } },
  ]);
  if (waiting.outcome !== "over") throw new Error(`not released: ${waiting.outcome}`);

  await good(signalRun({ path: { run }, body: { name: "go", payload: { cents: 4200 } } }));

  await append(await claim(), "end", [
    { check: { path: "go" } },
    { step_completed: { path: "charge", ord: 1, attempt: 1, output: "paid" } },
    { complete: { output: { greeted: "Ada" } } },
  ]);
  await good(removeWorker({ path: { worker } }));

  const ending = await good(awaitResult({ path: { run }, query: { wait_ms: 10_000 } }));
  if (JSON.stringify(ending.output) !== '{"greeted":"Ada"}') throw new Error(JSON.stringify(ending));
  console.log(`run ${run} finished`);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
