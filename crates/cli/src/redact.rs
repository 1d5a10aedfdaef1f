//! Redaction of secrets in everything that the program writes to stderr.

use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use goldseam::Redactor;
use goldseam::unstable::core::redact::{MARK, Names};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::{FormatFields, MakeWriter, format};

/// A redactor whose secrets can be extended at run time. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Redaction {
    redactor: Arc<RwLock<Redactor>>,
    /// URLs whose secrets are always redacted.
    urls: Arc<[String]>,
}

impl Redaction {
    /// Redacts the secrets in these URLs and in the environment.
    pub(crate) fn of(urls: &[&str]) -> Self {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        let redaction = Self { redactor: Arc::default(), urls };
        redaction.replace(Redactor::new(Names::usual()));
        redaction
    }

    /// Replaces the redactor, and adds the secrets of the URLs and the environment.
    pub(crate) fn replace(&self, mut redactor: Redactor) {
        let env = |name: &str| std::env::var(name).ok();
        goldseam::admin::hide_known(&mut redactor, self.urls.iter().map(String::as_str), env);
        if let Some(key) = env("GOLDSEAM_KEY") {
            let _ = redactor.hide(&key);
        }
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// Also redacts this value. Ignores values that are too short to be a key.
    pub(crate) fn hide(&self, value: &str) {
        let _ = self.redactor.write().unwrap_or_else(PoisonError::into_inner).hide(value);
    }

    /// Redacts text.
    pub(crate) fn text(&self, text: &str) -> String {
        self.with(|redactor| redactor.text(text).into_owned())
    }

    /// Redacts a JSON document.
    pub(crate) fn json(&self, text: &str) -> String {
        self.with(|redactor| redactor.json(text).into_owned())
    }

    fn with<T>(&self, read: impl FnOnce(&Redactor) -> T) -> T {
        read(&self.redactor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Formats the fields of a text log line, without values of fields that are named like a secret.
    pub(crate) fn fields(&self) -> impl for<'w> FormatFields<'w> + use<> {
        let redaction = self.clone();
        format::debug_fn(move |line, field, value| redaction.field(line, field.name(), value)).delimited(" ")
    }

    fn field(
        &self,
        line: &mut format::Writer<'_>,
        name: &str,
        value: &dyn std::fmt::Debug,
    ) -> std::fmt::Result {
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, line.has_ansi_escapes()) {
            ("message", _) => return write!(line, "{value:?}"),
            // The source locations of libraries are not useful here.
            (name, _) if name.starts_with("log.") => return Ok(()),
            (name, true) => write!(line, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            (name, false) => write!(line, "{name}=")?,
        }
        match self.with(|redactor| redactor.is_secret_name(name)) {
            true => line.write_str(MARK),
            false => write!(line, "{value:?}"),
        }
    }

    /// Redacts log lines before they are written to `to`.
    pub(crate) fn lines<M>(&self, form: LogFormat, to: M) -> Lines<M> {
        Lines { redaction: self.clone(), form, to }
    }
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Creates a redacting writer for each line.
#[derive(Debug, Clone)]
pub(crate) struct Lines<M> {
    redaction: Redaction,
    form: LogFormat,
    to: M,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Lines<M> {
    type Writer = RedactedLine<'a, M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactedLine { redaction: &self.redaction, form: self.form, out: self.to.make_writer() }
    }
}

/// A redacting writer for one line, which arrives in one `write`.
pub(crate) struct RedactedLine<'a, W> {
    redaction: &'a Redaction,
    form: LogFormat,
    out: W,
}

impl<W: Write> Write for RedactedLine<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = match self.form {
            // Omitted fields leave trailing blanks.
            LogFormat::Text => self.redaction.text(text.trim_end()) + "\n",
            LogFormat::Json => self.redaction.json(&text),
        };
        self.out.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of `emit`, as text and as JSON.
    fn logged(redaction: &Redaction, emit: impl Fn()) -> [String; 2] {
        [LogFormat::Text, LogFormat::Json].map(|form| {
            let log = Log::default();
            let to = log.clone();
            let fmt = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
            let fmt = fmt.with_writer(redaction.lines(form, move || to.clone()));
            match form {
                LogFormat::Text => {
                    tracing::subscriber::with_default(fmt.fmt_fields(redaction.fields()).finish(), &emit);
                }
                LogFormat::Json => tracing::subscriber::with_default(fmt.json().finish(), &emit),
            }
            String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
        })
    }

    #[test]
    fn secrets_never_reach_a_log_line() {
        let redaction = Redaction::of(&["postgres://ada:open%2Fsesame@h/d"]);
        redaction.hide("as\"learned\nlater");
        let value = "as\"learned\nlater";
        for line in logged(&redaction, || {
            let _span = tracing::info_span!("outer", url = "postgres://ada:open%2Fsesame@h/d").entered();
            tracing::warn!(detail = value, shown = %value, ?value, run = "r-1", "it was open/sesame, {value}");
        }) {
            assert!(!line.contains("sesame") && !line.contains("learned"), "{line}");
            assert!(line.contains("it was [secret], [secret]") && line.contains("r-1"), "{line}");
            assert!(line.contains("ada:[secret]@h/d"), "{line}");
        }
    }

    #[test]
    fn fields_named_like_a_secret_are_redacted() {
        let redaction = Redaction::of(&[]);
        for line in logged(&redaction, || {
            tracing::warn!(password = "hush", api_key = %"hush", next_page_token = "seen", count = 7, "logging in");
            tracing::error!({ authorization = "Bearer hush" }, "refused");
        }) {
            assert!(!line.contains("hush"), "{line}");
            for seen in ["logging in", "refused", "seen", "7", "[secret]"] {
                assert!(line.contains(seen), "{seen}: {line}");
            }
        }
        let [text, json] =
            logged(&redaction, || tracing::warn!(password = "hush", run = %"r-1", "logging in"));
        assert!(text.ends_with("logging in password=[secret] run=r-1\n"), "{text}");
        assert!(json.contains(r#""password":"[secret]""#), "{json}");
    }
}
