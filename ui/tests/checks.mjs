// Checks, and the order of tests.

export function equal(left, right, what = "") {
  const [a, b] = [JSON.stringify(left), JSON.stringify(right)];
  if (a !== b) throw new Error(`${what}: ${a?.slice(0, 500)} is not ${b?.slice(0, 500)}`);
}

export function ok(value, what) {
  if (!value) throw new Error(what);
}

/** Runs tests in order, each followed by `after`. Names can be selected by the first argument. */
export async function runAll(tests, after = async () => {}) {
  const wanted = process.argv[2];
  let failed = 0;
  const begin = Date.now();
  for (const [name, test] of Object.entries(tests)) {
    if (wanted && !name.includes(wanted)) continue;
    const from = Date.now();
    try {
      await test();
      console.log(`      ok  ${name} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed++;
      console.log(`  FAILED  ${name} (${((Date.now() - from) / 1000).toFixed(1)} s)\n${error.stack}\n`);
    }
    await after(name);
  }
  console.log(`${failed ? `${failed} failed` : "all passed"} in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
  process.exit(failed ? 1 : 0);
}
