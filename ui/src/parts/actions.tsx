// A change of something: a dialog with a reason, the command that does the same, and the response.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Scope } from "../api-types";
import { may, Refusal } from "../lib/api";
import { Command, Dialog, Field, Problem, quote } from "./basics";

interface ActionProps {
  label: string;
  title: string;
  scope: Scope;
  /** What it does, in a sentence. */
  children?: ComponentChildren;
  /** The command, with the reason. */
  command(reason: string): string;
  /** Makes the change. A returned text is shown. */
  act(reason: string): Promise<string | void>;
  /** Looks without a change. */
  preview?: (() => Promise<ComponentChildren>) | undefined;
  reason?: "none" | "optional" | "needed";
  danger?: boolean;
  done?(): void;
  class?: string;
  disabled?: boolean;
}

/** A button that only a key with the scope sees. */
export function Action(props: ActionProps) {
  const [open, setOpen] = useState(false);
  if (!may(props.scope)) return null;
  return (
    <>
      <button type="button" class={props.class ?? ""} disabled={props.disabled} onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {open && <ActionDialog {...props} close={() => setOpen(false)} />}
    </>
  );
}

export function ActionDialog(props: ActionProps & { close(): void }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Refusal>();
  const [said, setSaid] = useState<string>();
  const [looked, setLooked] = useState<ComponentChildren>();
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (thrown) {
      setError(thrown instanceof Refusal ? thrown : new Refusal({ detail: String((thrown as Error).message ?? thrown), status: 1 }));
    }
    setBusy(false);
  };
  const needed = props.reason === "needed" && reason.trim() === "";
  return (
    <Dialog title={props.title} close={props.close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void attempt(async () => {
            const text = await props.act(reason.trim());
            props.done?.();
            if (text) setSaid(text);
            else props.close();
          });
        }}
      >
        {props.children}
        {props.reason !== "none" && (
          <Field label={props.reason === "needed" ? "Reason" : "Reason (optional)"} hint="It becomes part of the log.">
            {(id) => <input id={id} value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} />}
          </Field>
        )}
        <Command line={props.command(reason.trim())} />
        {error && <Problem error={error} />}
        <div role="status">
          {looked && <div class="preview">{looked}</div>}
          {said && <p class="said">{said}</p>}
        </div>
        <footer>
          <button type="button" class="quiet" onClick={props.close}>
            {said ? "Close" : "Back"}
          </button>
          {props.preview && !said && (
            <button
              type="button"
              disabled={busy}
              onClick={() => void attempt(async () => setLooked(await props.preview!()))}
            >
              Dry run
            </button>
          )}
          {!said && (
            <button type="submit" class={props.danger ? "danger" : "primary"} disabled={busy || needed}>
              {props.label}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}

/** `--reason TEXT`, if there is one. */
export const withReason = (line: string, reason: string) => (reason ? `${line} --reason ${quote(reason)}` : line);
