// One verb on many runs: count first, then a dry run, then the operation.

import { useState } from "preact/hooks";
import type { Preview, Verb } from "../api-types";
import { call, may, Refusal } from "../lib/api";
import { go } from "../lib/router";
import { count, plural } from "../lib/time";
import { Busy, Command, Dialog, Field, Problem, quote, RunLink, Text } from "./basics";

export const VERBS: Verb[] = ["retry", "resume", "pause", "cancel", "recover"];

/** Writes a text as a value of a condition. */
export const literal = (text: string) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\t", "\\t")}"`;

export function Bulk({ where, count: shown, verbs = VERBS, suffix = "" }: { where: string; count?: string; verbs?: Verb[]; suffix?: string }) {
  const [verb, setVerb] = useState<Verb>();
  if (!may("operate")) return null;
  return (
    <span class="bulk">
      {shown && <span class="dim num">{shown}</span>}
      {verbs.map((one) => (
        <button key={one} type="button" onClick={() => setVerb(one)}>
          {one[0]!.toUpperCase() + one.slice(1)}
          {suffix}
        </button>
      ))}
      {verb && <BulkDialog verb={verb} where={where} close={() => setVerb(undefined)} />}
    </span>
  );
}

function BulkDialog({ verb, where, close }: { verb: Verb; where: string; close(): void }) {
  const [reason, setReason] = useState("");
  const [canary, setCanary] = useState("");
  const [rate, setRate] = useState("");
  const [preview, setPreview] = useState<Preview>();
  const [error, setError] = useState<Refusal>();
  const [busy, setBusy] = useState(false);
  const body = { verb, where, reason, canary: canary || undefined, rate: rate || undefined };
  const line = `goldseam ${verb} --where ${quote(where)}${canary ? ` --canary ${canary}` : ""}${rate ? ` --rate ${rate}` : ""}${reason ? ` --reason ${quote(reason)}` : ""}`;
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    await work().catch((thrown) => setError(thrown as Refusal));
    setBusy(false);
  };
  const look = () => attempt(async () => setPreview(await call("POST /v1/operations/preview", {}, { body })));
  const begin = () => attempt(async () => go(["operations", (await call("POST /v1/operations", {}, { body })).id]));
  const input = (set: (text: string) => void) => (event: { currentTarget: HTMLInputElement }) => (set(event.currentTarget.value), setPreview(undefined));
  return (
    <Dialog title={`${verb[0]!.toUpperCase()}${verb.slice(1)} many runs`} close={close}>
      <p>
        Which runs: <code><Text value={where} /></code>
      </p>
      <div class="row">
        <Field label="Stages (optional)" hint="As in 1,10%,all: each stage must pass before the next begins.">
          {(id) => <input id={id} value={canary} onInput={input(setCanary)} />}
        </Field>
        <Field label="Rate (optional)" hint="As in 50/s or 10/m.">
          {(id) => <input id={id} value={rate} onInput={input(setRate)} />}
        </Field>
      </div>
      <Field label="Reason (optional)" hint="It becomes part of each log.">
        {(id) => <input id={id} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />}
      </Field>
      <Command line={line} />
      {error && <Problem error={error} />}
      <div role="status">
        {busy && <Busy />}
        {preview && (
          <div class="preview">
            <p class="big num">
              {plural(preview.would_act, "run")} <span class="dim">of {count(preview.matched)}</span>
            </p>
            {preview.stages.length > 1 && <p class="dim">Stages end after {preview.stages.map(count).join(", ")}.</p>}
            {Object.entries(preview.skipped).map(([why, { count: n }]) => (
              <p key={why} class="dim">
                {plural(n, "run")} skipped: <Text value={why} />
              </p>
            ))}
            <p>
              {preview.samples.slice(0, 5).map((run) => (
                <>
                  <RunLink key={run} run={run} />{" "}
                </>
              ))}
            </p>
          </div>
        )}
      </div>
      <footer>
        <button type="button" class="quiet" onClick={close}>
          Back
        </button>
        {preview ? (
          <button type="button" class={verb === "cancel" ? "danger" : "primary"} disabled={busy || preview.would_act === 0} onClick={begin}>
            {verb[0]!.toUpperCase() + verb.slice(1)} {plural(preview.would_act, "run")}
          </button>
        ) : (
          <button type="button" class="primary" disabled={busy} onClick={look}>
            Count first
          </button>
        )}
      </footer>
    </Dialog>
  );
}
