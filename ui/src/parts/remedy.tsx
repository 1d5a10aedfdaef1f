// What a remedy would do: its dry run.

import { useState } from "preact/hooks";
import type { Recovery } from "../api-types";
import { call, type Refusal } from "../lib/api";
import { quote, Problem, Text } from "./basics";

/** A button that asks what the remedy of a rule would do to a run. Nothing changes. */
export function Remedy({ run, code }: { run: string; code: string }) {
  const [found, setFound] = useState<Recovery>();
  const [error, setError] = useState<Refusal>();
  const [isAsked, setAsked] = useState(false);
  const look = () =>
    call("GET /v1/runs/{run}/remedies", { run }).then(({ items }) => {
      setFound(items.find((one) => one.rule === code));
      setError(undefined);
      setAsked(true);
    }, setError);
  return (
    <div class="remedy">
      <button type="button" class="small" title={`goldseam recover ${quote(run)} --dry-run --each`} onClick={look}>Dry run</button>
      <div role="status">
        {error && <Problem error={error} />}
        {isAsked && !error && (found ? (
          <p>
            <Text value={found.remedy ?? ""} />
            {found.branch && <> The run would continue on branch <strong>{found.branch}</strong>.</>}
            {found.standing.length > 0 && <> Completed steps that would stay as they are: <code><Text value={found.standing.join(", ")} /></code>.</>}
          </p>
        ) : (
          <p>The rule no longer applies.</p>
        ))}
      </div>
    </div>
  );
}
