// What an operator can do to one run. Each control shows its command.

import { useState } from "preact/hooks";
import type { Detail, Seam } from "../api-types";
import { call, may } from "../lib/api";
import { flaw, pretty, Raw } from "../lib/json";
import { Action, withReason } from "./actions";
import { Field, quote, Text } from "./basics";

const TERMINAL = new Set(["completed", "failed", "cancelled"]);

export function RunActions({ detail, again }: { detail: Detail; again(): void }) {
  const { run, status } = detail;
  const over = TERMINAL.has(status);
  const common = { scope: "operate" as const, done: again };
  const pending = detail.pending ?? [];
  if (detail.pruned) return null;
  return (
    <>
      {status === "paused" || status === "parked" ? (
        <Action {...common} label="Resume" class="primary" title={`Resume ${run}`} command={(reason) => withReason(`goldseam resume ${run}`, reason)} act={async (reason) => (await call("POST /v1/runs/{run}/resume", { run }, { body: { reason } })).warning ?? undefined}>
          <p>The run continues. If a rule applies, it is recovered first.</p>
        </Action>
      ) : (
        !over && (
          <Action {...common} label="Pause" title={`Pause ${run}`} command={(reason) => withReason(`goldseam pause ${run}`, reason)} act={async (reason) => void (await call("POST /v1/runs/{run}/pause", { run }, { body: { reason } }))}>
            <p>The run stops between two effects, and keeps everything.</p>
          </Action>
        )
      )}
      {(status === "failed" || status === "parked") && (
        <Action {...common} label="Retry" class="primary" title={`Retry ${run}`} command={(reason) => withReason(`goldseam retry ${run}`, reason)} act={async (reason) => void (await call("POST /v1/runs/{run}/retry", { run }, { body: { reason } }))}>
          <p>The run goes back to its failed step, on a new branch. Completed steps keep their results.</p>
        </Action>
      )}
      <JumpAction detail={detail} again={again} />
      <SignalAction detail={detail} again={again} />
      {!over && (
        <Action {...common} label="Recover" title={`Recover ${run}`} command={(reason) => withReason(`goldseam recover ${run}`, reason)}
          preview={async () => {
            const found = await call("POST /v1/runs/{run}/recover", { run }, { body: { dry_run: true } });
            return found.needed ? <><p><strong>{found.rule}</strong> {found.rule_name}</p><p><Text value={found.evidence ?? ""} /></p><p><Text value={found.remedy ?? ""} /></p></> : <p>No rule applies: nothing to heal.</p>;
          }}
          act={async (reason) => {
            const done = await call("POST /v1/runs/{run}/recover", { run }, { body: { reason } });
            return done.healed ? `Healed by ${done.rule}.` : done.needed ? "Not healed: it needs a person." : "No rule applies: nothing to heal.";
          }}>
          <p>The rules examine the run, and the first automatic remedy is applied.</p>
        </Action>
      )}
      {!over && !pending.some((one) => one.what === "cancel") && (
        <Action {...common} label="Cancel" danger title={`Cancel ${run}`} command={(reason) => withReason(`goldseam cancel ${run}`, reason)} act={async (reason) => (await call("POST /v1/runs/{run}/cancel", { run }, { body: { reason } })).waits_for ?? undefined}>
          <p>The run ends after its compensations.</p>
        </Action>
      )}
      {pending.map((one) => (
        <Action {...common} key={one.what} label={`Withdraw the ${one.what}`} title={`Withdraw the ${one.what}`} command={(reason) => withReason(`goldseam withdraw ${run}`, reason)} act={async (reason) => void (await call("POST /v1/runs/{run}/withdraw", { run }, { body: { reason, what: one.what } }))} />
      ))}
      {!over && (
        <Action {...common} label="Terminate" danger reason="needed" title={`Terminate ${run}`} command={(reason) => withReason(`goldseam terminate ${run}`, reason)} act={async (reason) => void (await call("POST /v1/runs/{run}/terminate", { run }, { body: { reason } }))}>
          <p>The run ends now, without its code and without compensation.</p>
        </Action>
      )}
    </>
  );
}

function JumpAction({ detail, again }: { detail: Detail; again(): void }) {
  const { run } = detail;
  const given = (detail.input as unknown as Raw | null)?.text ?? "null";
  const paths = detail.steps.filter((step) => step.kind !== "undo").map((step) => step.path);
  const [to, setTo] = useState("");
  const [input, setInput] = useState<string>();
  const target = to || (paths[paths.length - 1] ?? "");
  const changed = input !== undefined && input !== pretty(given);
  if (!may("operate") || paths.length === 0) return null;
  const body = (more: object) => ({ to: target, ...(changed ? { input: new Raw(input!) } : {}), ...more });
  const check = () => {
    const wrong = changed ? flaw(input!) : undefined;
    if (wrong) throw new Error(`The input is not JSON: ${wrong}`);
  };
  return (
    <Action scope="operate" label="Jump" title={`Jump back in ${run}`} done={again}
      command={(reason) => withReason(`goldseam jump ${run} ${quote(target)}${changed ? ` --input ${quote(input!)}` : ""}`, reason)}
      preview={async () => {
        check();
        const found = await call("POST /v1/runs/{run}/jump", { run }, { body: body({ dry_run: true }) });
        return <p>{found.standing.length ? <>These effects would stand: <code>{found.standing.join(", ")}</code></> : "No completed effect would be left standing."}</p>;
      }}
      act={async (reason) => {
        check();
        const done = await call("POST /v1/runs/{run}/jump", { run }, { body: body({ reason }) });
        return done.branch ? `The run continues on ${done.branch}.` : (done.waits_for ?? "The jump waits for a worker.");
      }}>
      <p>The run goes back to a step, on a new branch. Nothing is deleted.</p>
      <Field label="Step">
        {(id) => (
          <select id={id} value={target} onChange={(event) => setTo(event.currentTarget.value)}>
            {paths.slice(-500).map((path) => <option key={path} value={path}>{path}</option>)}
          </select>
        )}
      </Field>
      <Field label="Input of the run" hint="Change it to continue with another input.">
        {(id) => <textarea id={id} rows={6} spellcheck={false} value={input ?? pretty(given)} onInput={(event) => setInput(event.currentTarget.value)} />}
      </Field>
    </Action>
  );
}

function SignalAction({ detail, again }: { detail: Detail; again(): void }) {
  const { run } = detail;
  const known = [...new Set((detail.waits ?? []).flatMap((wait) => wait.signals ?? []))];
  const [name, setName] = useState("");
  const [payload, setPayload] = useState("null");
  const signal = name || known[0] || "";
  if (detail.finished_at != null) return null;
  return (
    <Action scope="signal" label="Signal" title={`Send a signal to ${run}`} reason="none" done={again}
      command={() => `goldseam signal ${run} ${quote(signal || "NAME")} --data ${quote(payload)}`}
      act={async () => {
        const wrong = flaw(payload);
        if (wrong) throw new Error(`The payload is not JSON: ${wrong}`);
        return (await call("POST /v1/runs/{run}/signal", { run }, { body: { name: signal, payload: new Raw(payload) } })).warning ?? undefined;
      }}>
      <Field label="Name">
        {(id) => <input id={id} list="known-signals" value={signal} required onInput={(event) => setName(event.currentTarget.value)} />}
      </Field>
      <datalist id="known-signals">{known.map((one) => <option key={one} value={one} />)}</datalist>
      <Field label="Payload (JSON)">
        {(id) => <textarea id={id} rows={4} spellcheck={false} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} />}
      </Field>
    </Action>
  );
}

/** Returns to the other side of the latest seam. */
export function UndoSeam({ detail, seam, again }: { detail: Detail; seam: Seam; again(): void }) {
  const cuts = detail.seams.filter((one) => one.cut != null && one.kind === "recovered");
  if (seam.cut == null || seam.kind !== "recovered") return null;
  if (cuts[cuts.length - 1] !== seam) return <p class="dim small-text">Only the latest recovery can be undone.</p>;
  if (detail.finished_at != null) return <p class="dim small-text">The run has ended: its seams stay as they are.</p>;
  const { run } = detail;
  return (
    <Action scope="operate" label="Undo" title="Undo this seam" done={again} command={(reason) => withReason(`goldseam recover ${run} --undo`, reason)}
      act={async (reason) => `The run continues on ${(await call("POST /v1/runs/{run}/undo-recovery", { run }, { body: { reason } })).branch}.`}>
      <p>The run returns to branch {seam.cut?.from}, on a new branch. Nothing is deleted.</p>
    </Action>
  );
}
