// Every page shows what it must, and changes when something happens.
import { clean, equal, go, ok, open, sees, until } from "./harness.mjs";

export function pages({ server, context, chrome, alpha }) {
  const visit = (path) => open(context, server, path);
  return {
    async health_tells_the_truth_in_one_sentence() {
      const page = await visit("");
      await sees(page, "1 finding needs attention. 2 runs failed in the last hour. 1 run waits for a person.", ".sentence");
      const failed = page.locator(".tiles li", { hasText: "failed" });
      equal(await failed.locator("strong").innerText(), "2", "failed runs");
      await sees(page, "no live node has workflow ghost", ".findings");
      await sees(page, "alpha");
      await sees(page, "images", "table");
      await sees(page, "time to detect", ".spreads");
      await page.locator(".plot canvas").waitFor();
      await page.getByText("As a table").click();
      await sees(page, "recovered", ".as-table");
      // A new run changes the tiles without a reload.
      await server.start("listen", "lis-2");
      await until("the tile", async () => (await page.locator(".tiles li", { hasText: "waiting" }).locator("strong").innerText()) === "3");
      await clean(page);
    },

    async runs_filter_in_the_address_and_live() {
      const page = await visit("runs");
      await sees(page, "ord-1", ".runs-table");
      await page.locator(".chip", { hasText: "failed" }).click();
      await sees(page, "2 match");
      ok((await page.evaluate(() => location.search)).includes("status=failed"), "the filter is in the address");
      equal(await page.locator(".runs-table [role=row]:not(.head)").count(), 2, "rows");
      await page.getByLabel("Text").fill("pay-2");
      await page.keyboard.press("Enter");
      await sees(page, "1 match");
      await page.goto(`${server.page}/runs?workflow=order&tag=customer%3Dada`);
      await page.reload();
      await sees(page, "1 match");
      await page.locator("#view-name").fill("orders of ada");
      await page.getByText("Save view").click();
      await go(page, "runs");
      await page.getByRole("link", { name: "orders of ada" }).click();
      await sees(page, "1 match");
      await page.getByLabel("Workflow").focus();
      await until("suggested workflows", async () => (await page.locator("#l-workflow option").count()) > 4);
      await page.getByLabel("Tag").fill("custo");
      await until("suggested tags", async () => (await page.locator("#l-tag option[value='customer=ada']").count()) === 1);
      await go(page, "runs?workflow=echo");
      await sees(page, "No run matches");
      await server.start("echo", "ech-1", 1);
      await sees(page, "ech-1", ".runs-table");
      await until("the end of ech-1", async () => (await page.locator(".runs-table").innerText()).includes("completed"));
      await clean(page);
    },

    async run_says_why_in_the_words_of_the_command_line() {
      const page = await visit("runs/exp-1");
      const verdict = (await server.get("/v1/runs/exp-1/why")).verdict;
      await sees(page, verdict, ".why");
      ok((await server.cli("why", "exp-1")).includes(verdict), "the command line has the same words");
      await go(page, "runs/bank-1");
      await page.getByRole("button", { name: /call-bank/ }).click();
      await sees(page, "3 attempts in the log", "caption");
      await sees(page, "bank answered 503 on attempt 2", "table");
      equal(await page.locator(".timeline-row", { hasText: "call-bank" }).locator(".bar.is-failure").count(), 2, "a bar for each failed attempt");
      equal(await page.locator(".timeline-row", { hasText: "call-bank" }).locator(".bar.is-pause").count(), 2, "pauses");
      await page.getByRole("link", { name: "JSON" }).first().click();
      await sees(page, '"workflow": "flaky"', "dialog");
      await page.keyboard.press("Escape");
      await clean(page);
    },

    async events_scrub_to_the_state_at_an_event() {
      const page = await visit("runs/ord-1?tab=events");
      await sees(page, "run.queued", ".events-table");
      await page.locator("#scrub").evaluate((input) => {
        input.value = "1";
        input.dispatchEvent(new Event("input", { bubbles: true }));
      });
      await sees(page, "queued", ".scrubber .status");
      await page.locator("#scrub").evaluate((input) => input.dispatchEvent(new Event("change", { bubbles: true })));
      await sees(page, "The state as derived at event #1", ".banner");
      await sees(page, "queued", ".why");
      await page.getByText("Back to now").click();
      await page.locator(".events-table").getByText("step.completed").first().click();
      await sees(page, '"path": "reserve"', ".json");
      await clean(page);
    },

    async branches_stand_side_by_side() {
      const page = await visit("runs/ord-1?tab=branches");
      await sees(page, "b1 and b2, side by side");
      equal(await page.locator(".lineage .cut").count(), 1, "one cut");
      await sees(page, "They are the same up to event #", ".parted");
      await page.locator("#branch").selectOption("b1");
      ok((await page.evaluate(() => location.search)).includes("branch=b1"), "the branch is in the address");
      await clean(page);
    },

    async queues_show_who_holds_what() {
      const page = await visit("queues");
      await sees(page, "No live node takes 1 run of ghost in queue default", ".banner");
      await sees(page, "print", "table");
      await sees(page, "ada", "table");
      await page.getByRole("link", { name: "images" }).click();
      await sees(page, "resize", "table");
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
      await until("the task is cancelled", async () => (await server.get("/v1/tasks?queue=images")).items[0].state === "cancelled");
      await server.post("/v1/tasks", { kind: "resize", queue: "images" });
      await sees(page, "alpha", ".node");
      await sees(page, "takes runs from default", ".node");
      // A known workflow in a queue that no live node takes.
      await server.start("echo", "unt-1", 1, { queue: "unserved" });
      await sees(page, "No live node takes 1 run of echo@1 in queue unserved", ".banner");
      await sees(page, "has runs that no live node takes", "table");
      await go(page, "runs/unt-1");
      await sees(page, "it waits for a worker with echo@1 that takes queue unserved", ".why");
      await go(page, "start?workflow=echo");
      await page.getByLabel("Queue").fill("unserved");
      await sees(page, "No live node with echo takes queue unserved; they take default", ".warn-text");
      await server.post("/v1/runs/unt-1/cancel", { reason: "tested" });
      await clean(page);
    },

    async failures_are_grouped_by_cause() {
      const page = await visit("failures");
      const group = page.locator(".failure").first();
      await sees(page, "2 runs, 1 cause");
      await sees(page, "was declined", ".failure .message");
      await group.getByRole("link", { name: /2 runs/ }).click();
      await sees(page, "2 match");
      await go(page, "failures?where=workflow%20%3D%20order");
      await sees(page, "No failed or parked runs");
      await go(page, "failures?where=status%20%3D");
      await page.locator(".problem .code").waitFor();
      await page.getByRole("link", { name: "All failures, without a condition" }).click();
      await sees(page, "2 runs, 1 cause");
      await clean(page);
    },

    async children_mail_and_effects_are_on_their_tabs() {
      await server.start("family", "fam-1", { waits: true });
      await until("the second child", async () => (await server.get("/v1/runs?parent=fam-1")).items.length === 2);
      const page = await visit("runs/fam-1?tab=children");
      await until("both children", async () => (await page.locator("main table tbody tr").count()) === 2);
      const child = (await server.get("/v1/runs?parent=fam-1&status=waiting")).items[0].run;
      await sees(page, child, "main table");
      await page.getByRole("link", { name: child }).click();
      await sees(page, "fam-1", ".run-facts");
      await server.post(`/v1/runs/${child}/signal`, { name: "go", payload: { ready: true } });
      await go(page, "runs/fam-1?tab=mail");
      await sees(page, "child.completed", ".cards");
      await go(page, "runs/fam-1?tab=effects");
      await sees(page, "Standing");
      await sees(page, "pack", ".card");
      await go(page, "runs/lis-1?tab=effects");
      await sees(page, "No effects yet", ".empty");
      await go(page, "runs/lis-1?tab=children");
      await sees(page, "goldseam ls --parent lis-1", ".empty");
      await clean(page);
    },

    async a_remote_step_shows_its_task_and_heartbeat() {
      await server.start("render", "ren-1", { file: "b.mov" });
      const { task, token } = await until("the task", async () => (await server.post("/v1/tasks/claim", { owner: "gpu-7", queue: "gpu", wait_ms: 500 })).items[0]);
      await server.post(`/v1/tasks/${task.id}/heartbeat`, { token, details: { frame: 12 } });
      const page = await visit("runs/ren-1");
      await page.locator(".timeline-row", { hasText: "encode" }).locator(".beat").waitFor();
      await page.getByRole("button", { name: /encode/ }).click();
      await sees(page, "gpu-7", ".card");
      await sees(page, "heartbeat", ".card dt");
      await server.post(`/v1/tasks/${task.id}/complete`, { token, result: { frames: 24 } });
      await sees(page, "completed", ".why .status");
      await sees(page, '"frames": 24', ".json");
      await clean(page);
    },

    async cut_off_attempts_stay_visible() {
      const page = await visit("runs/ord-1");
      const lost = page.locator(".bar.is-lost");
      await lost.first().waitFor();
      await page.getByRole("button", { name: /charge/ }).click();
      await sees(page, "cut off with b1", ".card table");
      await sees(page, "lost with its worker or branch", ".legend-row");
      await clean(page);
    },

    async a_local_step_shows_its_worker_retry_policy_and_next_retry() {
      await server.start("patient", "pat-1");
      await until("the retry", async () => (await server.get("/v1/runs/pat-1")).steps.some((step) => step.spans.some((one) => one.kind === "pause")));
      const page = await visit("runs/pat-1");
      await page.getByRole("button", { name: /call/ }).click();
      const fact = page.locator(".fact", { hasText: "next attempt" }).locator("dd");
      const first = await fact.innerText();
      await until("the countdown", async () => (await fact.innerText()) !== first);
      await sees(page, "line is busy", ".card table");
      await sees(page, "alpha", ".card table");
      await sees(page, "up to 5 attempts, pauses 10 min to 1 h", ".fact");
      const [step] = JSON.parse(await server.cli("show", "pat-1", "--json")).steps;
      equal([step.retry.attempts_max, step.retry.initial_ms], [5, 600_000], "the policy on the command line");
      await clean(page);
    },

    async ages_are_right_if_the_clock_of_the_browser_is_wrong() {
      const page = await context.newPage();
      await page.addInitScript(() => {
        const now = Date.now;
        Date.now = () => now() + 7_200_000;
      });
      await page.goto(`${server.page}/runs?status=failed`);
      await sees(page, "pay-1", ".runs-table");
      await until("the age", async () => !/\b[12] h\b/.test(await page.locator(".runs-table").innerText()));
      await page.close();
    },

    async api_page_renders_the_description() {
      const page = await visit("api");
      await page.locator(".route summary", { hasText: "/v1/runs/{run}/jump" }).click();
      await sees(page, "drop_cancel", ".route");
      await page.getByLabel("Find a route").fill("passes/rotate");
      await until("the filter", async () => (await page.locator(".route").count()) === 1);
      await clean(page);
    },
  };
}
