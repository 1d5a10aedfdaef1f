//! What holds for many routes alike, and so stands in no route's own description: what the guard and the shield answer,
//! how a problem is written, and which changes take an idempotency key.

use axum::http::Method;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::{Content, ObjectBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, Type};

use crate::auth::PUBLIC;
use crate::extract::KEY_BYTES_MAX;

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";

/// Answers of every route that asks who comes.
const ALWAYS: &[(&str, &str)] = &[
    ("400", "the request makes no sense"),
    ("401", "there is no valid key or pass"),
    ("403", "the key, the pass or the page may not do this"),
    ("421", "the server does not answer under that name"),
    ("429", "too many requests"),
    ("500", "internal server error"),
    ("503", "the store does not answer now"),
];
/// Of those that name something in their path.
const NAMED: &[(&str, &str)] = &[("404", "there is no such thing")];
/// Of those that take a body.
const WITH_BODY: &[(&str, &str)] = &[
    ("408", "the body came too slowly"),
    ("413", "it is too large"),
    ("415", "it is not JSON, or compressed"),
];
/// Of those that change something.
const CHANGING: &[(&str, &str)] = &[
    ("409", "it cannot be done now, or the key or id came with something else before"),
    ("507", "the store is full"),
];
/// Of those that read the log of a run.
const READING: &[(&str, &str)] = &[("409", "the log is damaged")];
/// Of those that ask for no key.
const OPEN: &[(&str, &str)] = &[
    ("400", "the request makes no sense"),
    ("421", "the server does not answer under that name"),
    ("429", "too many connections from one address"),
];

/// Adds to every description what no route says itself.
pub(super) fn add_to(openapi: &mut OpenApi) {
    for (path, item) in &mut openapi.paths.paths {
        for (method, operation) in operations_mut(item) {
            if PUBLIC.iter().any(|(public, at)| (public, *at) == (&method, path.as_str())) {
                add(operation, OPEN);
                written_as_problems(operation);
                continue;
            }
            add(operation, ALWAYS);
            if path.contains('{') {
                add(operation, NAMED);
            }
            if operation.request_body.is_some() {
                add(operation, WITH_BODY);
            }
            if method != Method::GET {
                add(operation, CHANGING);
            } else if path.starts_with("/v1/runs/{run}") {
                add(operation, READING);
            }
            if takes_key(&method, path) {
                operation.parameters.get_or_insert_default().push(RefOr::T(key()));
            }
            written_as_problems(operation);
        }
    }
}

/// Whether a repeat of a change is recognised by its idempotency key. What is told once, as keys and passes are, and what
/// has tokens of its own, as workers do, is not.
fn takes_key(method: &Method, path: &str) -> bool {
    let of_run = path.strip_prefix("/v1/runs/{run}/").is_some_and(|what| what != "passes");
    let of_task = path.strip_prefix("/v1/tasks/{task}/").is_some_and(|what| what != "heartbeat");
    let other = matches!(path, "/v1/runs" | "/v1/tasks" | "/v1/locks/{lock}/acquire");
    *method == Method::POST && (of_run || of_task || other)
}

fn key() -> Parameter {
    ParameterBuilder::new()
        .name("idempotency-key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("the same change under the same key is made once, and answered the same way again"))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(KEY_BYTES_MAX)),
        ))
        .build()
}

fn add(operation: &mut Operation, answers: &[(&str, &str)]) {
    for (status, description) in answers {
        let known = operation.responses.responses.entry((*status).to_owned());
        known.or_insert_with(|| {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            RefOr::T(ResponseBuilder::new().description(*description).content(PROBLEM, problem).build())
        });
    }
}

/// Whatever is wrong comes as a problem, and not as the document that was asked for.
fn written_as_problems(operation: &mut Operation) {
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
