// Changes that a user of the dashboard makes.
import { equal, go, ok, open, sees, until } from "./harness.mjs";

/** Presses a control, fills in a reason, and confirms. */
async function act(page, label, { reason, dryRun } = {}) {
  await page.locator(".actions, .seam-card").getByRole("button", { name: label, exact: true }).first().click();
  const dialog = page.locator("dialog");
  ok((await dialog.locator(".command code").first().innerText()).startsWith("goldseam "), "the dialog shows the command");
  if (reason) await dialog.getByLabel(/^Reason/).fill(reason);
  if (dryRun) {
    await dialog.getByRole("button", { name: "Dry run" }).click();
    await dialog.locator(".preview").waitFor();
  }
  await dialog.getByRole("button", { name: label, exact: true }).click();
}

/** Waits for the end of a change, and closes its dialog if that shows a response. */
const done = async (page) => {
  const dialog = page.locator("dialog");
  await until("the dialog is closed", async () => {
    if ((await dialog.count()) === 0) return true;
    if ((await dialog.locator(".said").count()) > 0) await page.keyboard.press("Escape");
    return false;
  });
};

export function actions({ server, context, alpha }) {
  const visit = (path) => open(context, server, path);
  const clean = async (page) => {
    equal(page.faults, [], "faults of the page");
    await page.close();
  };
  return {
    async a_killed_worker_leaves_a_seam_without_reload() {
      const doomed = await server.worker("doomed-worker", { GOLDSEAM_QUEUES: "kill" });
      await server.start("order", "kill-1", { charge_ms: 20_000 }, { queue: "kill" });
      await until("charge began", async () => (await server.get("/v1/runs/kill-1")).steps.some((step) => step.path === "charge"));
      const page = await visit("runs/kill-1");
      await page.evaluate(() => (window.sameDocument = true));
      await sees(page, "charge", ".timeline");
      equal(await page.locator(".seam").count(), 0, "no seam yet");
      doomed.kill("SIGKILL");
      await server.worker("heir", { GOLDSEAM_QUEUES: "kill" });
      await page.locator(".seam").first().waitFor({ timeout: 20_000 });
      equal(await page.evaluate(() => window.sameDocument), true, "no reload");
      await page.locator(".seam").first().click();
      await sees(page, "O2", ".seam-card");
      await sees(page, "is gone", ".seam-card");
      await sees(page, "recorded as", ".seam-card");
      await sees(page, "detected after", ".seam-card");
      await page.locator(".timeline-row", { hasText: "charge" }).locator(".bar").first().waitFor();
      await go(page, "recoveries");
      await sees(page, "worker-lost", ".healing");
      await sees(page, "kill-1", ".healing");
      await page.getByRole("button", { name: "only" }).first().click();
      ok((await page.evaluate(() => location.search)).includes("rule="), "the filter is in the address");
      await page.locator(".healing button.code").first().click();
      await sees(page, "What to do", "dialog");
      await clean(page);
    },

    async questions_are_answered_by_their_forms() {
      await server.start("expense", "ask-1", { amount: 900 });
      await server.start("review", "ask-2");
      const page = await visit("inbox");
      const expense = page.locator(".question", { hasText: "ask-1" });
      await expense.getByLabel("yes").check();
      await expense.getByRole("button", { name: "Answer" }).click();
      await sees(page, "Answered approve of ask-1");
      await server.reaches("ask-1", "completed");
      const review = page.locator(".question", { hasText: "ask-2" });
      await review.getByRole("textbox").fill("Well made");
      await review.getByRole("button", { name: "Answer" }).click();
      await page.locator(".question", { hasText: "How much, and why?" }).waitFor();
      const details = page.locator(".question", { hasText: "ask-2" });
      await details.getByLabel("amount").fill("9007199254740993");
      await until("an incomplete form cannot be sent", () => details.getByRole("button", { name: "Answer" }).isDisabled());
      await details.getByLabel("note").fill("\"quoted\" <b>");
      await details.getByLabel("urgent").check();
      await details.getByRole("button", { name: "Answer" }).click();
      await server.reaches("ask-2", "completed");
      const log = await server.call("GET", "/v1/runs/ask-2/history", undefined, true);
      ok(log.includes('"answer":{"amount":9007199254740993,'), "the number arrives exactly");
      await server.start("expense", "ask-3");
      const third = page.locator(".question", { hasText: "ask-3" });
      await third.getByRole("button", { name: "Create a pass" }).click();
      await sees(page, "Its holder may answer this question once", "dialog");
      // The holder of the link answers without a key, once.
      const link = await page.locator("dialog a.token").getAttribute("href");
      const holder = await context.newPage();
      await holder.goto(link.replace(/^https?:\/\/[^/]+/, server.page));
      await holder.getByLabel("no", { exact: true }).check();
      await holder.getByLabel(/^Your name/).fill("ada");
      equal(await holder.evaluate(() => location.href.includes("#")), false, "the pass has left the address");
      await holder.getByRole("button", { name: "Answer" }).click();
      await sees(holder, "Your answer is recorded");
      await server.reaches("ask-3", "completed");
      await holder.goto(link.replace(/^https?:\/\/[^/]+/, server.page));
      await holder.locator(".problem .code").waitFor();
      await holder.close();
      await clean(page);
    },

    async nested_schemas_become_forms() {
      await server.start("survey", "ask-4");
      await server.reaches("ask-4", "waiting");
      const page = await visit("inbox?run=ask-4");
      const form = page.locator(".question");
      await form.getByLabel("Kind").selectOption({ label: "gift" });
      const answer = form.getByRole("button", { name: "Answer" });
      await until("a required part is missing", () => answer.isDisabled());
      await form.getByLabel("city").fill("Kyōto");
      await form.getByLabel("zip").fill("123456");
      await sees(page, "at most 99999", ".question");
      await until("a number out of range cannot be sent", () => answer.isDisabled());
      await form.getByLabel("zip").fill("600");
      for (const size of ["1.50", "9007199254740993"]) {
        await form.getByRole("button", { name: "Add to sizes" }).click();
        await form.locator(".array-item input").last().fill(size);
      }
      await form.getByLabel("free").fill("null");
      await answer.click();
      await server.reaches("ask-4", "completed");
      const log = await server.call("GET", "/v1/runs/ask-4/history", undefined, true);
      ok(log.includes('"answer":{"address":{"city":"Kyōto","zip":600},"free":null,"kind":"gift","sizes":[1.50,9007199254740993]}'), log);
      await clean(page);
    },

    async a_failed_run_is_retried_and_a_cancel_withdrawn() {
      await server.start("doomed", "ret-1", { card: 5 });
      await server.reaches("ret-1", "failed");
      const page = await visit("runs/ret-1");
      await act(page, "Retry", { reason: "once more" });
      await until("the second branch", async () => (await server.get("/v1/runs/ret-1/branches")).items.length === 2);
      await server.reaches("ret-1", "failed");
      const leaver = await server.worker("leaver", { GOLDSEAM_QUEUES: "slow" });
      await server.start("order", "wit-1", { fast: true, charge_ms: 600_000 }, { queue: "slow" });
      await until("charge began", async () => (await server.get("/v1/runs/wit-1")).steps.some((step) => step.path === "charge"));
      // Without its worker the run cannot act on the request, so it can be withdrawn.
      leaver.kill("SIGTERM");
      await leaver.ended;
      await go(page, "runs/wit-1");
      await sees(page, "charge", ".timeline");
      await act(page, "Cancel", { reason: "too slow" });
      await done(page);
      await act(page, "Withdraw the cancel", { reason: "it is fine" });
      await until("the request is gone", async () => ((await server.get("/v1/runs/wit-1")).pending ?? []).length === 0);
      await clean(page);
    },

    async the_doctor_heals_from_the_health_page() {
      const worker = await server.worker("passer-by", { GOLDSEAM_QUEUES: "left" });
      await server.start("order", "doc-1", { fast: true, charge_ms: 60_000 }, { queue: "left" });
      await until("charge began", async () => (await server.get("/v1/runs/doc-1")).steps.some((step) => step.path === "charge"));
      worker.kill("SIGTERM");
      await worker.ended;
      await server.tamper("doc-1", "waiting");
      const page = await visit("");
      await page.locator("#findings").getByRole("button", { name: /Show all/ }).or(page.locator("#findings", { hasText: "doc-1" })).first().click();
      await sees(page, "doc-1", "#findings");
      await page.locator("#findings").getByRole("button", { name: "Heal" }).click();
      await sees(page, "goldseam doctor --fix", "dialog");
      await page.locator("dialog").getByRole("button", { name: "Heal" }).click();
      await sees(page, "healed.", "dialog .said");
      await until("the row is right", async () => (await server.get("/v1/runs?status=queued")).items.some((row) => row.run === "doc-1"));
      await clean(page);
    },

    async jump_with_edited_input() {
      await server.start("order", "jmp-1", { order: 1, fast: true, charge_ms: 1 });
      await server.reaches("jmp-1", "completed");
      const page = await visit("runs/jmp-1");
      await page.locator(".actions").getByRole("button", { name: "Jump" }).click();
      const dialog = page.locator("dialog");
      await dialog.getByLabel("Step").selectOption("charge");
      await dialog.getByLabel("Input of the run").fill("{ not json");
      await dialog.getByRole("button", { name: "Jump" }).click();
      await sees(page, "The input is not JSON", "dialog .problem");
      await dialog.getByLabel("Input of the run").fill('{"order": 9007199254740993, "fast": true, "charge_ms": 1}');
      await dialog.getByRole("button", { name: "Dry run" }).click();
      await dialog.locator(".preview").waitFor();
      equal((await server.get("/v1/runs/jmp-1/branches")).items.length, 1, "a dry run changes nothing");
      await dialog.getByLabel(/^Reason/).fill("other order");
      await dialog.getByRole("button", { name: "Jump", exact: true }).click();
      await sees(page, "The run continues on b2.", "dialog");
      await done(page);
      await page.locator(".seam").first().waitFor();
      await server.reaches("jmp-1", "completed");
      ok(/"input":\{"order":\s*9007199254740993,/.test(await server.call("GET", "/v1/runs/jmp-1", undefined, true)), "the input arrives exactly");
      await sees(page, "9007199254740993", ".json");
      ok((await server.call("GET", "/v1/runs/jmp-1/history", undefined, true)).includes("other order"), "the reason is in the log");
      await clean(page);
    },

    async a_recovery_is_previewed_made_and_undone() {
      const worker = await server.worker("seamstress", { GOLDSEAM_QUEUES: "seam" });
      await server.start("order", "sea-1", { fast: true, charge_ms: 60_000 }, { queue: "seam" });
      await until("charge began", async () => (await server.get("/v1/runs/sea-1")).steps.some((step) => step.path === "charge"));
      worker.kill("SIGTERM");
      await worker.ended;
      // Another program writes a wrong status into the row: rule A1.
      await server.tamper("sea-1", "waiting");
      const page = await visit("runs/sea-1");
      await sees(page, "A1", ".findings");
      await page.locator(".findings").getByRole("button", { name: "Dry run" }).first().click();
      await sees(page, "branch", ".findings [role=status]");
      equal((await server.get("/v1/runs/sea-1/branches")).items.length, 1, "a dry run changes nothing");
      await act(page, "Recover", { reason: "by hand" });
      await sees(page, "Healed by A1.", "dialog");
      await done(page);
      await page.locator(".seam").first().click();
      await sees(page, "A1", ".seam-card");
      await act(page, "Undo", { reason: "a mistake" });
      await sees(page, "The run continues on b3.", "dialog");
      await done(page);
      await go(page, "runs/sea-1?tab=branches");
      await until("the graph", async () => (await page.locator(".lineage .dot").count()) === 3);
      const log = await server.call("GET", "/v1/runs/sea-1/history", undefined, true);
      ok(log.includes("by hand") && log.includes("a mistake"), "the reasons are in the log");
      await clean(page);
    },

    async pause_resume_signal_and_cancel_a_run() {
      await server.start("listen", "ctl-1");
      await server.reaches("ctl-1", "waiting");
      const page = await visit("runs/ctl-1");
      await act(page, "Pause", { reason: "lunch" });
      await sees(page, "paused", ".why .status");
      await act(page, "Resume");
      await sees(page, "waiting", ".why .status");
      await act(page, "Recover", { dryRun: true });
      await sees(page, "nothing to heal", "dialog .said");
      await done(page);
      await page.locator(".actions").getByRole("button", { name: "Signal" }).click();
      await page.locator("dialog").getByLabel("Payload (JSON)").fill('{"go": true}');
      await page.locator("dialog").getByRole("button", { name: "Signal", exact: true }).click();
      await sees(page, "completed", ".why .status");
      await go(page, "runs/ctl-1?tab=mail");
      await sees(page, "signal.received", ".cards");
      await server.start("listen", "ctl-2");
      await go(page, "runs/ctl-2");
      await sees(page, "waiting", ".why .status");
      await act(page, "Cancel", { reason: "not needed" });
      await sees(page, "cancelled", ".why .status");
      await server.start("listen", "ctl-3");
      await go(page, "runs/ctl-3");
      await sees(page, "waiting", ".why .status");
      await page.locator(".actions").getByRole("button", { name: "Terminate" }).click();
      ok(await page.locator("dialog").getByRole("button", { name: "Terminate", exact: true }).isDisabled(), "a termination needs a reason");
      await page.locator("dialog").getByLabel("Reason").fill("broken");
      await page.locator("dialog").getByRole("button", { name: "Terminate", exact: true }).click();
      await sees(page, "cancelled", ".why .status");
      await clean(page);
    },

    async a_run_is_started_and_opened() {
      const page = await visit("start");
      await page.getByLabel("Workflow").fill("echo");
      await page.getByLabel("Input (JSON)").fill("{");
      ok(await page.getByRole("button", { name: "Start", exact: true }).isDisabled(), "invalid JSON cannot be sent");
      await page.getByLabel("Input (JSON)").fill('{"n": 12345678901234567890}');
      await page.getByLabel("Id (optional)").fill("sta-1");
      await page.getByLabel("Tags (optional)").fill("team=blue\nnote=a=b");
      await page.getByLabel("Priority").fill("5");
      await page.getByRole("button", { name: "Start", exact: true }).click();
      await page.getByRole("link", { name: "sta-1" }).click();
      await sees(page, "12345678901234567890", ".json");
      await sees(page, "a=b", ".run-facts");
      const { tags, priority } = await server.get("/v1/runs/sta-1");
      equal([tags, priority], [{ note: "a=b", team: "blue" }, 5], "tags and priority");
      await go(page, "start?workflow=echo");
      await page.getByLabel("Workflow").fill("echo");
      await page.getByLabel("Id (optional)").fill("sta-1");
      await page.getByRole("button", { name: "Start", exact: true }).click();
      await page.locator(".problem button.code").waitFor();
      await clean(page);
    },

    async five_hundred_failed_runs_are_retried_at_once() {
      const ids = Array.from({ length: 500 }, (_, n) => `bulk-${n}`);
      for (let at = 0; at < ids.length; at += 50) await Promise.all(ids.slice(at, at + 50).map((id, n) => server.start("doomed", id, { card: at + n }, { tags: { load: "bulk" } })));
      await until("500 failures", async () => (await server.get(`/v1/groups?where=${encodeURIComponent('status = failed and tag.load = "bulk"')}`)).total === 500, 60_000);
      const page = await visit("failures");
      await sees(page, "card", ".failure .message");
      await page.locator(".failure").first().getByRole("link", { name: /run/ }).first().click();
      await sees(page, /50[2-9] match/);
      await go(page, "runs?status=failed&tag=load%3Dbulk");
      await sees(page, "500 match");
      alpha.kill("SIGUSR2");
      await page.locator(".bulk").getByRole("button", { name: "Retry" }).click();
      const dialog = page.locator("dialog");
      await dialog.getByLabel("Reason (optional)").fill("the bank is back");
      await dialog.getByRole("button", { name: "Count first" }).click();
      await sees(page, "500 runs", "dialog .preview");
      equal((await server.get("/v1/operations")).items.length, 0, "counting changes nothing");
      await dialog.getByRole("button", { name: "Retry 500 runs" }).click();
      await page.locator("progress").waitFor();
      await until("500 are done", async () => (await page.locator("[data-test=acted]").innerText()) === "500", 60_000);
      await until("500 completions", async () => (await server.get(`/v1/groups?where=${encodeURIComponent('status = completed and tag.load = "bulk"')}`)).total === 500, 60_000);
      await go(page, "operations");
      await sees(page, "retry", "table");
      await clean(page);
    },

    async an_operation_is_stopped_and_selected_runs_are_paused() {
      const ids = Array.from({ length: 20 }, (_, n) => `slow-${n}`);
      await Promise.all(ids.map((id) => server.start("listen", id, null, { tags: { load: "slow" } })));
      const page = await visit("runs?tag=load%3Dslow");
      await sees(page, "20 match");
      await page.getByLabel("select slow-3").check();
      await page.getByLabel("select slow-4").check();
      await sees(page, "2 selected");
      await page.locator(".bulk").getByRole("button", { name: "Pause" }).click();
      await page.locator("dialog").getByRole("button", { name: "Count first" }).click();
      await page.locator("dialog").getByRole("button", { name: "Pause 2 runs" }).click();
      await until("both are paused", async () => (await server.get("/v1/runs?tag=load%3Dslow&status=paused")).items.length === 2);
      await go(page, "runs?tag=load%3Dslow&status=waiting");
      await sees(page, "18 match");
      await page.locator(".bulk").getByRole("button", { name: "Cancel" }).click();
      await page.locator("dialog").getByLabel("Rate (optional)").fill("1/m");
      await page.locator("dialog").getByRole("button", { name: "Count first" }).click();
      await page.locator("dialog").getByRole("button", { name: "Cancel 18 runs" }).click();
      await act(page, "Pause", { reason: "wait" });
      await sees(page, "paused", ".card .status");
      await act(page, "Resume");
      await page.locator(".actions").getByRole("button", { name: "Pause" }).waitFor();
      await act(page, "Stop", { reason: "enough" });
      await sees(page, "cancelled", ".card .status");
      ok((await server.get("/v1/runs?tag=load%3Dslow&status=waiting")).items.length > 10, "the rest is untouched");
      await clean(page);
    },
  };
}
