//! The parts of the OpenAPI description that follow from the route table and are the same for many routes: path
//! parameters, idempotency keys, and the responses of authentication and the other checks.

use axum::http::Method;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::{Content, ObjectBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, Type};

use crate::extract::KEY_BYTES_MAX;
use crate::route_table;

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";

/// Statuses of every route that needs a credential.
const ALWAYS: &[&str] = &["400", "401", "403", "421", "429", "500", "503"];
/// Statuses of public routes.
const PUBLIC: &[&str] = &["400", "421", "429"];
/// Statuses of routes with a path parameter.
const WITH_PARAMETER: &[&str] = &["404"];
/// Statuses of routes with a body.
const WITH_BODY: &[&str] = &["408", "413", "415"];
/// Statuses of changes.
const CHANGING: &[&str] = &["409", "507"];
/// Statuses of routes that read the log of a run.
const READING: &[&str] = &["409"];

/// Adds the common parts to every operation.
pub(super) fn add_to(openapi: &mut OpenApi) {
    for (path, item) in &mut openapi.paths.paths {
        for (method, operation) in operations_mut(item) {
            add_parameters(operation, &method, path);
            add_responses(operation, &method, path);
            use_problem_type(operation);
        }
    }
}

fn add_parameters(operation: &mut Operation, method: &Method, path: &str) {
    let mut parameters: Vec<_> = path.split('/').filter_map(path_parameter).map(RefOr::T).collect();
    parameters.append(operation.parameters.get_or_insert_default());
    if route_table::find(method, path).is_some_and(|route| route.is_idempotent) {
        parameters.push(RefOr::T(idempotency_key()));
    }
    operation.parameters = (!parameters.is_empty()).then_some(parameters);
}

/// Returns the parameter of a path segment such as `{run}`.
fn path_parameter(segment: &str) -> Option<Parameter> {
    let name = segment.strip_prefix('{')?.strip_suffix('}')?;
    let description = match name {
        "run" => "Id of the run.",
        "question" => "Path of the question, percent-encoded.",
        "task" => "Id of the task.",
        "lock" => "Name of the lock.",
        "worker" => "Id of the worker.",
        "key" => "Id of the key.",
        "code" => "An error code such as GS0104, or the code or name of a rule, such as O2 or worker-lost.",
        "ticket" => "The ticket from the response that created the pass.",
        _ => "",
    };
    Some(
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .build(),
    )
}

fn idempotency_key() -> Parameter {
    ParameterBuilder::new()
        .name("idempotency-key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "Identifies the change. A repeat under the same key is not executed again and gets the original response.",
        ))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(KEY_BYTES_MAX)),
        ))
        .build()
}

fn add_responses(operation: &mut Operation, method: &Method, path: &str) {
    if route_table::is_public(method, path) {
        add(operation, PUBLIC);
        return;
    }
    add(operation, ALWAYS);
    if path.contains('{') {
        add(operation, WITH_PARAMETER);
    }
    if operation.request_body.is_some() {
        add(operation, WITH_BODY);
    }
    if method != Method::GET {
        add(operation, CHANGING);
    } else if path.starts_with("/v1/runs/{run}") {
        add(operation, READING);
    }
}

/// Adds a problem response for each status that the operation does not describe.
fn add(operation: &mut Operation, statuses: &[&str]) {
    for status in statuses {
        let known = operation.responses.responses.entry((*status).to_owned());
        known.or_insert_with(|| {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            RefOr::T(ResponseBuilder::new().content(PROBLEM, problem).build())
        });
    }
}

/// Sets the media type of every error response.
fn use_problem_type(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.as_str() >= "400"
        {
            let content = std::mem::take(&mut response.content);
            response.content =
                content.into_iter().map(|(_, content)| (PROBLEM.to_owned(), content)).collect();
        }
    }
}

fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}
