//! A subscriber that keeps every log line with the fields of its spans.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

type Fields = BTreeMap<String, String>;

/// A log line.
#[derive(Debug, Clone)]
pub(super) struct LogLine {
    pub(super) level: Level,
    pub(super) target: String,
    pub(super) message: String,
    /// Its own fields.
    pub(super) fields: Fields,
    /// The names of its spans, outermost first, with their fields.
    pub(super) spans: Vec<(&'static str, Fields)>,
}

impl LogLine {
    /// The spans as text, such as `run{run=r} step{path=a}`, with the given fields only.
    pub(super) fn within(&self, wanted: &[&str]) -> String {
        let span = |(name, fields): &(&'static str, Fields)| {
            let shown = wanted.iter().filter_map(|key| Some(format!("{key}={}", fields.get(*key)?)));
            format!("{name}{{{}}}", shown.collect::<Vec<_>>().join(" "))
        };
        self.spans.iter().map(span).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// All lines of this thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture(Arc<Mutex<Vec<LogLine>>>);

impl Capture {
    /// Captures the lines of this thread until the guard is dropped.
    pub(super) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let capture = Self::default();
        let all = tracing_subscriber::registry().with(capture.clone());
        (capture, tracing::subscriber::set_default(all))
    }

    pub(super) fn lines(&self) -> Vec<LogLine> {
        self.0.lock().unwrap().clone()
    }

    /// The lines with this message.
    pub(super) fn named(&self, message: &str) -> Vec<LogLine> {
        self.lines().into_iter().filter(|line| line.message == message).collect()
    }

    #[track_caller]
    pub(super) fn only(&self, message: &str) -> LogLine {
        let found = self.named(message);
        assert_eq!(found.len(), 1, "{message}: {found:?}");
        found[0].clone()
    }
}

#[derive(Default)]
struct FieldCollector(Fields);

impl Visit for FieldCollector {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut found = FieldCollector::default();
        attributes.record(&mut found);
        context.span(id).unwrap().extensions_mut().insert(found.0);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut found = FieldCollector::default();
        values.record(&mut found);
        let span = context.span(id).unwrap();
        span.extensions_mut().get_mut::<Fields>().unwrap().extend(found.0);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut found = FieldCollector::default();
        event.record(&mut found);
        let scope = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = scope.map(|span| {
            let fields = span.extensions().get::<Fields>().cloned().unwrap_or_default();
            (span.metadata().name(), fields)
        });
        let line = LogLine {
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            message: found.0.remove("message").unwrap_or_default(),
            fields: found.0,
            spans: spans.collect(),
        };
        self.0.lock().unwrap().push(line);
    }
}
