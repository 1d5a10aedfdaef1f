// Writes src/api-types.ts from docs/openapi.json: a type for each schema, and a map of all routes.
import { readFileSync, writeFileSync } from "node:fs";

const root = new URL("../../", import.meta.url);
const document = JSON.parse(readFileSync(new URL("docs/openapi.json", root), "utf8"));

const word = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const unique = (parts) => [...new Set(parts)].join(" | ");

function type(schema) {
  if (!schema || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return unique(schema.enum.map((value) => JSON.stringify(value)));
  if (schema.oneOf) return unique(schema.oneOf.map(type));
  if (schema.allOf) return schema.allOf.map((part) => `(${type(part)})`).join(" & ");
  if (Array.isArray(schema.type)) return unique(schema.type.map((one) => type({ ...schema, type: one })));
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "array":
      return `Array<${type(schema.items)}>`;
    default:
  }
  if (schema.properties) return fields(schema);
  const rest = schema.additionalProperties;
  if (rest) return `Record<string, ${rest === true ? "unknown" : type(rest)}>`;
  return "unknown";
}

function fields({ properties, required = [] }) {
  const lines = Object.entries(properties).map(
    ([name, schema]) => `  ${word(name)}${required.includes(name) ? "" : "?"}: ${type(schema).replaceAll("\n", "\n  ")};`,
  );
  return `{\n${lines.join("\n")}\n}`;
}

function route(operation) {
  const parameters = (place) =>
    fields({
      properties: Object.fromEntries(
        (operation.parameters ?? []).filter((one) => one.in === place).map((one) => [one.name, one.schema]),
      ),
      required: (operation.parameters ?? []).filter((one) => one.required).map((one) => one.name),
    }).replaceAll("\n", "\n    ");
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const reply = operation.responses["200"]?.content?.["application/json"]?.schema;
  return `{
    path: ${parameters("path")};
    query: ${parameters("query")};
    body: ${body ? type(body) : "undefined"};
    reply: ${reply ? type(reply) : "unknown"};
  }`;
}

const out = ["// Generated from docs/openapi.json by scripts/types.mjs.", ""];
for (const [name, schema] of Object.entries(document.components.schemas)) {
  out.push(`export type ${name} = ${type(schema)};`, "");
}
out.push("export interface Routes {");
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    out.push(`  "${method.toUpperCase()} ${path}": ${route(operation)};`);
  }
}
out.push("}", "");
writeFileSync(new URL("../src/api-types.ts", import.meta.url), out.join("\n"));
