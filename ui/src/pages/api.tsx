// The OpenAPI document of this server, rendered.

import { useState } from "preact/hooks";
import { address, call, session } from "../lib/api";
import { useLoad } from "../lib/load";
import { href, setQuery } from "../lib/router";
import { Busy, Command, Empty, Page, Problem, Text } from "../parts/basics";

interface Operation {
  method: string;
  path: string;
  name: string;
  tag: string;
  scope: string | undefined;
  description: string;
  parameters: any[];
  body: any;
  responses: Record<string, any>;
}

export default function Api({ query }: { query: URLSearchParams }) {
  const loaded = useLoad("openapi", () => call("GET /v1/openapi.json"));
  const wanted = query.get("find") ?? "";
  const document = loaded.data as any;
  const operations: Operation[] = document ? Object.entries<any>(document.paths).flatMap(([path, item]) => Object.entries<any>(item).map(([method, one]) => ({
    method: method.toUpperCase(), path, name: one.operationId, tag: one.tags?.[0] ?? "", scope: one["x-scope"], description: one.description ?? "", parameters: one.parameters ?? [], body: one.requestBody, responses: one.responses,
  }))) : [];
  const match = operations.filter((one) => `${one.method} ${one.path} ${one.name} ${one.description}`.toLowerCase().includes(wanted.toLowerCase()));
  const tags: any[] = document?.tags ?? [];
  return (
    <Page title="API" command={`curl ${location.origin}/v1/openapi.json${session.value.key ? ' -H "authorization: Bearer $GOLDSEAM_KEY"' : ""}`} json={address("GET /v1/openapi.json")}>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <div class="row"><div class="field grow"><label for="find">Find a route</label><input id="find" value={wanted} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></div></div>
      </form>
      {loaded.error && !document && <Problem error={loaded.error} />}
      {!document && !loaded.error && <Busy />}
      {document && match.length === 0 && <Empty title="No such route" command={`curl ${location.origin}/v1/openapi.json`}><a href={href(["api"])}>All routes</a></Empty>}
      {tags.map((tag) => {
        const own = match.filter((one) => one.tag === tag.name);
        return own.length === 0 ? null : (
          <section key={tag.name} class="card">
            <h2>{tag.name}</h2>
            <p class="dim">{tag.description}</p>
            <div>{own.map((one) => <Route key={one.method + one.path} one={one} schemas={document.components.schemas} />)}</div>
          </section>
        );
      })}
    </Page>
  );
}

function Route({ one, schemas }: { one: Operation; schemas: Record<string, any> }) {
  const [open, setOpen] = useState(false);
  const body = one.body?.content?.["application/json"]?.schema;
  return (
    <details class="route" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><span class={`method is-${one.method.toLowerCase()}`}>{one.method}</span> <code>{one.path}</code> {one.scope && <span class="pill">{one.scope}</span>} <span class="dim summary-text">{one.description.split(/\n\n|(?<=\.) /)[0]}</span></summary>
      {open && (
        <div class="route-body">
          {one.description.split("\n\n").map((part, at) => <p key={at}><Text value={part} /></p>)}
          {one.parameters.length > 0 && (
            <div class="scroll-x" tabIndex={0} role="group" aria-label="Parameters"><table class="slim"><thead><tr><th>parameter</th><th>in</th><th>type</th><th>meaning</th></tr></thead>
              <tbody>{one.parameters.map((parameter) => <tr key={parameter.name}><th scope="row"><code>{parameter.name}</code>{parameter.required && " *"}</th><td>{parameter.in}</td><td><code>{typeOf(parameter.schema)}</code></td><td><Text value={parameter.description ?? ""} /></td></tr>)}</tbody></table></div>
          )}
          {body && <><h3>Body</h3><Schema schema={body} schemas={schemas} depth={0} /></>}
          <h3>Responses</h3>
          <ul class="plain">{Object.entries(one.responses).map(([status, response]) => <li key={status}><strong class="num">{status}</strong> <Text value={response.description ?? ""} /></li>)}</ul>
          {one.responses["200"]?.content?.["application/json"]?.schema && <Schema schema={one.responses["200"].content["application/json"].schema} schemas={schemas} depth={0} />}
          {one.method === "GET" && !one.path.includes("{") && <Command line={`curl ${location.origin}${one.path}`} />}
        </div>
      )}
    </details>
  );
}

function typeOf(schema: any): string {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((one: unknown) => JSON.stringify(one)).join(" | ");
  if (schema.oneOf) return schema.oneOf.map(typeOf).join(" | ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type;
  return type === "array" ? `${typeOf(schema.items)}[]` : (type ?? "any");
}

const DEPTH = 3;

function Schema({ schema, schemas, depth }: { schema: any; schemas: Record<string, any>; depth: number }) {
  const name = schema.$ref?.split("/").pop() as string | undefined;
  const found = name ? schemas[name] : schema;
  const fields = Object.entries<any>(found?.properties ?? {});
  if (fields.length === 0) return <p><code>{typeOf(found)}</code></p>;
  const refs = fields.map(([, one]) => one.$ref ?? one.items?.$ref).filter((ref) => ref && schemas[ref.split("/").pop()]?.properties);
  return (
    <>
      {name && <p><strong>{name}</strong> <span class="dim"><Text value={found.description ?? ""} /></span></p>}
      <div class="scroll-x" tabIndex={0} role="group" aria-label={`Fields of ${name ?? "the document"}`}><table class="slim"><thead><tr><th>field</th><th>type</th><th>meaning</th></tr></thead>
        <tbody>{fields.map(([field, one]) => <tr key={field}><th scope="row"><code>{field}</code>{found.required?.includes(field) && " *"}</th><td><code>{typeOf(one)}</code></td><td><Text value={one.description ?? ""} /></td></tr>)}</tbody></table></div>
      {depth < DEPTH && [...new Set(refs)].map((ref) => <details key={ref} class="nested"><summary>{ref.split("/").pop()}</summary><Schema schema={{ $ref: ref }} schemas={schemas} depth={depth + 1} /></details>)}
    </>
  );
}
