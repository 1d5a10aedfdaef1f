// Builds the dashboard, and writes the files that `goldseam serve` contains. With --check it compares instead.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync, mkdirSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const check = process.argv.includes("--check");
const here = fileURLToPath(new URL("..", import.meta.url));
const server = join(here, "../crates/server");
const kept = join(server, "dashboard");
const list = join(server, "src/dashboard/files.rs");
const out = mkdtempSync(join(tmpdir(), "goldseam-ui-"));

const KINDS = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
/** Bytes below which compression saves nothing. */
const SMALL = 600;

const files = (folder, path = "") =>
  readdirSync(join(folder, path), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? files(folder, join(path, entry.name)) : [join(path, entry.name)],
  );

function table(names) {
  const entry = (name) => {
    const kind = KINDS[extname(name)];
    if (!kind) throw new Error(`${name} has no content type`);
    const path = name === "index.html" ? "/" : `/${name}`;
    const plain = readFileSync(join(out, name));
    const gzip = plain.length > SMALL ? `Some(include_bytes!("../../dashboard/${name}.gz"))` : "None";
    return `    DashboardFile {
        path: "${path}",
        content_type: "${kind}",
        plain: include_bytes!("../../dashboard/${name}"),
        gzip: ${gzip},
        is_hashed: ${name.startsWith("assets/")},
    },`;
  };
  return `//! The built files. \`cargo xtask ui\` writes this list.

use super::DashboardFile;

#[rustfmt::skip]
pub(super) const FILES: &[DashboardFile] = &[
${names.map(entry).join("\n")}
];
`;
}

try {
  const types = join(here, "src/api-types.ts");
  const typesBefore = existsSync(types) ? readFileSync(types, "utf8") : "";
  execFileSync(process.execPath, [join(here, "scripts/types.mjs")], { stdio: "inherit" });
  const typesFresh = readFileSync(types, "utf8");
  if (check) writeFileSync(types, typesBefore);
  execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--noEmit"], { cwd: here, stdio: "inherit" });
  execFileSync(process.execPath, [join(here, "node_modules/vite/bin/vite.js"), "build", "--logLevel", "warn"], {
    cwd: here,
    stdio: "inherit",
    env: { ...process.env, GOLDSEAM_UI_OUT: out, NODE_ENV: "production" },
  });
  const names = files(out).sort();
  const wanted = table(names);
  if (check) {
    const faults = typesBefore === typesFresh ? [] : ["ui/src/api-types.ts"];
    const present = existsSync(kept) ? files(kept).filter((name) => !name.endsWith(".gz")).sort() : [];
    for (const name of new Set([...names, ...present])) {
      const built = names.includes(name) ? readFileSync(join(out, name)) : undefined;
      const stored = present.includes(name) ? readFileSync(join(kept, name)) : undefined;
      if (!built || !stored || !built.equals(stored)) faults.push(name);
      else if (built.length > SMALL && !gunzipSync(readFileSync(join(kept, `${name}.gz`))).equals(built)) faults.push(`${name}.gz`);
    }
    if (readFileSync(list, "utf8") !== wanted) faults.push("src/dashboard/files.rs");
    if (faults.length) {
      console.error(`crates/server/dashboard differs from ui/src: ${faults.join(", ")}. Run: cargo xtask ui`);
      process.exit(1);
    }
    console.log(`crates/server/dashboard matches ui/src (${names.length} files)`);
  } else {
    rmSync(kept, { recursive: true, force: true });
    for (const name of names) {
      const plain = readFileSync(join(out, name));
      mkdirSync(join(kept, name, ".."), { recursive: true });
      writeFileSync(join(kept, name), plain);
      if (plain.length > SMALL) writeFileSync(join(kept, `${name}.gz`), gzipSync(plain, { level: 9 }));
    }
    writeFileSync(list, wanted);
    const first = names.filter((name) => readFileSync(join(out, "index.html"), "utf8").includes(name));
    const size = (name) => gzipSync(readFileSync(join(out, name)), { level: 9 }).length;
    const scripts = first.filter((name) => name.endsWith(".js"));
    console.log(`first page: ${scripts.map(size).reduce((a, b) => a + b, 0)} bytes of JavaScript (gzip), ${first.filter((name) => name.endsWith(".css")).map(size).reduce((a, b) => a + b, 0)} bytes of CSS`);
    console.log(`all: ${names.map(size).reduce((a, b) => a + b, 0)} bytes (gzip) in ${names.length} files`);
  }
} finally {
  rmSync(out, { recursive: true, force: true });
}
