//! Messages in the format of server-sent events.

use axum::body::Bytes;

/// One message. Name, id and data are single lines: the data is JSON.
#[derive(Debug)]
pub(super) struct Message {
    name: String,
    id: Option<String>,
    data: String,
}

impl Message {
    pub(super) fn new(name: &str, data: String) -> Self {
        Self { name: name.to_owned(), id: None, data }
    }

    pub(super) fn with_id(self, id: String) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Encodes the message. Allocates its exact size, because each slow follower holds one.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut lines = vec!["event: ", &self.name, "\n"];
        if let Some(id) = &self.id {
            lines.extend(["id: ", id, "\n"]);
        }
        lines.extend(["data: ", &self.data, "\n\n"]);
        Bytes::from(lines.concat())
    }
}

/// Returns a comment, which followers ignore.
pub(super) fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_one_line_per_field() {
        let message = Message::new("run.started", "{\"seq\":1}".to_owned());
        assert_eq!(message.to_bytes(), "event: run.started\ndata: {\"seq\":1}\n\n");
        assert_eq!(
            message.with_id("1".to_owned()).to_bytes(),
            "event: run.started\nid: 1\ndata: {\"seq\":1}\n\n"
        );
    }
}
