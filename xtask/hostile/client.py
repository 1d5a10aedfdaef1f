"""Starts, signals and finishes a run with the client that openapi-python-client generated."""

import os
import uuid

from goldseam_client import AuthenticatedClient
from goldseam_client.api.runs import await_result, signal_run, start_run
from goldseam_client.api.workers import (
    append_to_execution,
    claim_executions,
    register_worker,
    remove_worker,
)
from goldseam_client import models as m

url, key = os.environ["GOLDSEAM_URL"], os.environ["GOLDSEAM_KEY"]
client = AuthenticatedClient(base_url=url, token=key, timeout=60, raise_on_unexpected_status=True)


def good(answer, kind):
    """Returns the response, and asserts that it has the documented type."""
    assert isinstance(answer, kind), answer
    return answer


run = f"python-{uuid.uuid4().hex}"
queue = f"q-{run}"
body = m.NewRun(workflow="greet", id=run, input_={"name": "Ada"}, queue=queue)
assert good(start_run.sync(client=client, body=body), m.Started).run == run

# The worker waits for a signal, releases the run, and claims it again after the signal.
body = m.RegisterWorker(name="python", workflows=["greet@1"], queues=[queue], slots=1)
worker = good(register_worker.sync(client=client, body=body), m.RegisteredWorker).worker


def claim():
    body = m.ClaimExecutions(limit=1, wait_ms=10_000)
    for _ in range(3):
        claimed = good(claim_executions.sync(worker, client=client, body=body), m.ClaimedExecutions)
        if claimed.executions:
            return claimed.executions[0]
    raise AssertionError("nothing to claim")


def append(execution, name, doings):
    body = m.WorkerAppend(token=execution.token, id=name, after=execution.end, doings=doings)
    return good(append_to_execution.sync(client=client, body=body), m.WorkerAppended)


execution = claim()
assert (execution.run, execution.input_) == (run, {"name": "Ada"}), execution
wait = m.WorkerDoingWait(wait=m.WorkerDoingWaitWait(path="go", ord_=0, signals=["go"]))
release = m.WorkerDoingRelease(release=m.WorkerDoingReleaseRelease(reason=m.WorkerRelease.UNLOAD))
outcome = append(execution, "wait", [wait, release]).outcome
assert outcome == m.ExecutionOutcome.OVER, outcome

body = m.NewSignal(name="go", payload={"cents": 4200})
assert good(signal_run.sync(run, client=client, body=body), m.Signalled).run == run

execution = claim()
check = m.WorkerDoingCheck(check=m.WorkerDoingCheckCheck(path="go"))
step = m.WorkerDoingStepCompletedStepCompleted(path="charge", ord_=1, attempt=1, output="paid")
done = m.WorkerDoingComplete(complete=m.WorkerDoingCompleteComplete(output={"greeted": "Ada"}))
append(execution, "end", [check, m.WorkerDoingStepCompleted(step_completed=step), done])
good(remove_worker.sync(worker, client=client), m.LeftWorker)

ending = good(await_result.sync(run, client=client, wait_ms=10_000), m.Ending)
assert ending.to_dict()["output"] == {"greeted": "Ada"}, ending
print(f"run {run} finished")
