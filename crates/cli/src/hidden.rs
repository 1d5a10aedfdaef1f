//! What this program keeps to itself: the filter between everything that it says on stderr and whoever reads that.

use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use goldseam::Redactor;
use goldseam::core::redact::{MARK, Names};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::{FormatFields, MakeWriter, format};

/// The filter, which learns what is secret while the program finds out. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hidden {
    redactor: Arc<RwLock<Redactor>>,
    own: Arc<[String]>,
}

impl Hidden {
    /// Hides what stands in these URLs and in the environment.
    pub(crate) fn of(urls: &[&str]) -> Self {
        let own = urls.iter().map(|url| (*url).to_owned()).collect();
        let hidden = Self { redactor: Arc::default(), own };
        hidden.replace(Redactor::new(Names::usual()));
        hidden
    }

    /// Goes by this filter from now on, and by what it knows itself.
    pub(crate) fn replace(&self, mut redactor: Redactor) {
        let env = |name: &str| std::env::var(name).ok();
        goldseam::hide_known(&mut redactor, self.own.iter().map(String::as_str), env);
        if let Some(key) = env("GOLDSEAM_KEY") {
            let _ = redactor.hide(&key);
        }
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// Hides this value, too; what is too short to be looked for is no key of ours.
    pub(crate) fn hide(&self, value: &str) {
        let _ = self.redactor.write().unwrap_or_else(PoisonError::into_inner).hide(value);
    }

    /// Text for people without what is hidden.
    pub(crate) fn text(&self, text: &str) -> String {
        self.with(|redactor| redactor.text(text).into_owned())
    }

    /// The same for a document.
    pub(crate) fn json(&self, text: &str) -> String {
        self.with(|redactor| redactor.json(text).into_owned())
    }

    fn with<T>(&self, look: impl FnOnce(&Redactor) -> T) -> T {
        look(&self.redactor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How fields stand in a log line of text: as usual, but for those that have the name of a secret.
    pub(crate) fn fields(&self) -> impl for<'w> FormatFields<'w> + use<> {
        let hidden = self.clone();
        format::debug_fn(move |line, field, value| hidden.field(line, field.name(), value)).delimited(" ")
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
            // Where in its code a library says something is of no use here.
            (name, _) if name.starts_with("log.") => return Ok(()),
            (name, true) => write!(line, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            (name, false) => write!(line, "{name}=")?,
        }
        match self.with(|redactor| redactor.is_secret_name(name)) {
            true => line.write_str(MARK),
            false => write!(line, "{value:?}"),
        }
    }

    /// Lets log lines go there through the filter.
    pub(crate) fn lines<M>(&self, form: Form, to: M) -> Lines<M> {
        Lines { hidden: self.clone(), form, to }
    }
}

/// What a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text.
    Text,
    /// A document.
    Json,
}

/// Makes a writer for each line.
#[derive(Debug, Clone)]
pub(crate) struct Lines<M> {
    hidden: Hidden,
    form: Form,
    to: M,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Lines<M> {
    type Writer = Line<'a, M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { hidden: &self.hidden, form: self.form, out: self.to.make_writer() }
    }
}

/// A line on its way. It is written in one piece, however many there are of it in itself.
pub(crate) struct Line<'a, W> {
    hidden: &'a Hidden,
    form: Form,
    out: W,
}

impl<W: Write> Write for Line<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = match self.form {
            // Fields that are left out leave their blanks.
            Form::Text => self.hidden.text(text.trim_end()) + "\n",
            Form::Json => self.hidden.json(&text),
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

    /// What stands in the log after this, in text and as documents.
    fn logged(hidden: &Hidden, say: impl Fn()) -> [String; 2] {
        [Form::Text, Form::Json].map(|form| {
            let log = Log::default();
            let to = log.clone();
            let fmt = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
            let fmt = fmt.with_writer(hidden.lines(form, move || to.clone()));
            match form {
                Form::Text => {
                    tracing::subscriber::with_default(fmt.fmt_fields(hidden.fields()).finish(), &say);
                }
                Form::Json => tracing::subscriber::with_default(fmt.json().finish(), &say),
            }
            String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
        })
    }

    #[test]
    fn a_hidden_value_is_in_no_log_line_whatever_it_stands_in() {
        let hidden = Hidden::of(&["postgres://ada:open%2Fsesame@h/d"]);
        hidden.hide("as\"learned\nlater");
        let value = "as\"learned\nlater";
        for line in logged(&hidden, || {
            let _span = tracing::info_span!("outer", url = "postgres://ada:open%2Fsesame@h/d").entered();
            tracing::warn!(detail = value, shown = %value, ?value, run = "r-1", "it was open/sesame, {value}");
        }) {
            assert!(!line.contains("sesame") && !line.contains("learned"), "{line}");
            assert!(line.contains("it was [secret], [secret]") && line.contains("r-1"), "{line}");
            assert!(line.contains("ada:[secret]@h/d"), "{line}");
        }
    }

    #[test]
    fn a_field_with_the_name_of_a_secret_is_not_shown() {
        let hidden = Hidden::of(&[]);
        for line in logged(&hidden, || {
            tracing::warn!(password = "hush", api_key = %"hush", next_page_token = "seen", count = 7, "logging in");
            tracing::error!({ authorization = "Bearer hush" }, "refused");
        }) {
            assert!(!line.contains("hush"), "{line}");
            for seen in ["logging in", "refused", "seen", "7", "[secret]"] {
                assert!(line.contains(seen), "{seen}: {line}");
            }
        }
        let [text, json] = logged(&hidden, || tracing::warn!(password = "hush", run = %"r-1", "logging in"));
        assert!(text.ends_with("logging in password=[secret] run=r-1\n"), "{text}");
        assert!(json.contains(r#""password":"[secret]""#), "{json}");
    }
}
